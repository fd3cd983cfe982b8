//! The rows of git.

use super::{Extra, Guard, NONE};

pub(super) const TABLE: &[Guard] = &[
    Guard {
        heads: &["git"],
        refused: &[
            "--ext-diff",
            "--textconv",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--open-files-in-pager",
            "--config",
            "--template",
            "--no-index",
            "--remote",
            "--separate-git-dir",
            "--extcmd",
            "--tool",
            "--sign-program",
            "--smtp-server",
            "--sendmail-cmd",
            "--to-cmd",
            "--cc-cmd",
            "--header-cmd",
        ],
        writes: &["--output", "--output-directory"],
        known: &["--text", "--remotes", "--cc", "--to"],
        extra: Extra::NoOperandWith("ext::"),
        ..NONE
    },
    Guard {
        heads: &["git"],
        extra: Extra::Subcommands(&[
            "difftool",
            "mergetool",
            "bisect",
            "submodule",
            "filter-branch",
            "hook",
            "daemon",
            "send-email",
            "instaweb",
            "web--browse",
            "credential",
            "maintenance",
            "for-each-repo",
            "remote-ext",
            "upload-pack",
            "receive-pack",
            "shell",
            "init",
            "worktree",
            "help",
            "fast-import",
            "archimport",
            "bisect--helper",
            "citool",
            "credential-cache",
            "credential-store",
            "cvsexportcommit",
            "cvsimport",
            "cvsserver",
            "difftool--helper",
            "fast-export",
            "fsmonitor--daemon",
            "gui",
            "http-backend",
            "http-fetch",
            "http-push",
            "imap-send",
            "p4",
            "quiltimport",
            "sh-setup",
            "submodule--helper",
            "subtree",
            "svn",
        ]),
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &[
            "diff",
            "log",
            "show",
            "format-patch",
            "diff-tree",
            "diff-index",
            "diff-files",
            "range-diff",
            "rev-list",
            "whatchanged",
            "stash",
        ],
        refused: &["-O"],
        flags: "pusczwbaRDWtmq",
        valued: "SGIL",
        numeric: "UlnBMC",
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["grep"],
        refused: &["-O"],
        flags: "viwaIrEGFPnhHlLzocpWq",
        valued: "ef",
        numeric: "ABCm",
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["cat-file"],
        refused: &["--filters"],
        known: &["--filter"],
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["difftool", "mergetool"],
        refused: &["-x", "-t"],
        flags: "gydr",
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["bisect"],
        // `visualize` starts a program that is called `git...`, or git itself with whatever follows.
        extra: Extra::NoWord(&["run", "visualize", "view", "replay"]),
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["submodule"],
        extra: Extra::NoWord(&["foreach"]),
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["clone"],
        refused: &["-c", "-u"],
        flags: "vqnls46",
        valued: "bo",
        numeric: "j",
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["rebase"],
        refused: &["-x", "-s"],
        flags: "qvnfmi",
        valued: "X",
        numeric: "C",
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["archive"],
        writes: &["-o"],
        flags: "vl",
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["format-patch"],
        writes: &["-o"],
        flags: "nNskpquzwbaRDWt",
        valued: "vSGI",
        numeric: "UlBMC",
        ..NONE
    },
    // They write whatever a file says, or where an operand says, and the work tree holds the never-paths.
    Guard {
        heads: &["git"],
        subcommands: &[
            "am",
            "apply",
            "bugreport",
            "bundle",
            "checkout-index",
            "diagnose",
            "index-pack",
            "mailinfo",
            "mailsplit",
            "merge-file",
            "merge-index",
            "merge-one-file",
            "pack-objects",
            "read-tree",
            "unpack-file",
        ],
        extra: Extra::ExactOnly,
        ..NONE
    },
    // A strategy is a program that is called `git-merge-STRATEGY`, and a slash makes it a path in the work tree.
    Guard {
        heads: &["git"],
        subcommands: &["merge", "pull", "rebase", "cherry-pick", "revert"],
        refused: &["--strategy"],
        known: &[
            "--strategy-option",
            "--strategy=ort",
            "--strategy=recursive",
            "--strategy=ours",
            "--strategy=octopus",
            "--strategy=resolve",
            "--strategy=subtree",
        ],
        ..NONE
    },
    // A path outside the work tree turns it into a comparison of any two files, as with `--no-index`.
    Guard {
        heads: &["git"],
        subcommands: &["diff", "difftool"],
        extra: Extra::OperandsInside,
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["interpret-trailers"],
        refused: &["--in-place"],
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["ls-remote", "fetch", "pull", "push"],
        extra: Extra::NoOperandFrom("ext:"),
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["config"],
        extra: Extra::GitConfig,
        ..NONE
    },
    // They run what they are told, or write marks and work trees where they are told.
    Guard {
        heads: &["git"],
        subcommands: &[
            "filter-branch",
            "for-each-repo",
            "instaweb",
            "web--browse",
            "daemon",
            "http-backend",
            "cvsserver",
            "shell",
            "fast-import",
            "quiltimport",
            "p4",
            "svn",
            "subtree",
            "send-email",
        ],
        extra: Extra::ExactOnly,
        ..NONE
    },
    Guard {
        heads: &["git"],
        subcommands: &["fast-export"],
        writes: &["--export-marks"],
        ..NONE
    },
];
