//! The rows of tools that find, print, sort, convert and pack files.

use super::{Extra, Guard, NONE, Style};

pub(super) const TABLE: &[Guard] = &[
    Guard {
        heads: &["find", "bfs"],
        style: Style::Words,
        refused: &[
            "-exec*",
            "-ok*",
            "-delete",
            "-fprint*",
            "-fls",
            "-files0-from",
        ],
        ends: false,
        ..NONE
    },
    Guard {
        heads: &["fd", "fdfind"],
        refused: &[
            "-x",
            "-X",
            "--exec",
            "--exec-batch",
            "--search-path-from",
            "--ignore-file",
        ],
        valued: "tedEScjo",
        ..NONE
    },
    Guard {
        heads: &["rg"],
        refused: &["--pre", "--hostname-bin", "-z", "--search-zip"],
        valued: "efgtTABCmMrjEd",
        ..NONE
    },
    Guard {
        heads: &["sort"],
        refused: &[
            "--compress-program",
            "-T",
            "--temporary-directory",
            "--files0-from",
        ],
        writes: &["-o", "--output"],
        flags: "bdfgiMhnRrVcCmsuz",
        valued: "ktS",
        ..NONE
    },
    Guard {
        heads: &["wc", "du"],
        refused: &["--files0-from"],
        ..NONE
    },
    Guard {
        heads: &["uniq"],
        flags: "cdDiuz",
        numeric: "fsw",
        extra: Extra::SecondOperandWritten,
        ..NONE
    },
    Guard {
        heads: &["xxd"],
        style: Style::Words,
        extra: Extra::Xxd,
        ..NONE
    },
    Guard {
        heads: &["tee"],
        extra: Extra::OperandsWritten,
        ..NONE
    },
    Guard {
        heads: &["sed", "gsed"],
        extra: Extra::Sed,
        ..NONE
    },
    Guard {
        heads: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        extra: Extra::Awk,
        ..NONE
    },
    Guard {
        heads: &["ag", "ack"],
        refused: &["--pager", "--ackrc", "-p", "--path-to-ignore", "--output"],
        valued: "G",
        numeric: "ABCm",
        ..NONE
    },
    Guard {
        heads: &["split", "csplit", "zip"],
        extra: Extra::ExactOnly,
        ..NONE
    },
    Guard {
        heads: &["shuf"],
        writes: &["-o", "--output"],
        flags: "erz",
        valued: "ni",
        ..NONE
    },
    Guard {
        heads: &["iconv"],
        writes: &["-o", "--output"],
        flags: "lcs",
        valued: "ft",
        ..NONE
    },
    Guard {
        heads: &["unzip"],
        inside: &["-d"],
        flags: "qonjaltvupfzTUCLXVKM",
        ..NONE
    },
    Guard {
        heads: &["tar", "gtar", "bsdtar"],
        refused: &[
            "--checkpoint-action",
            "--to-command",
            "-I",
            "--use-compress-program",
            "-F",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
            "-P",
            "--absolute-names",
            // The listed file may hold options.
            "-T",
            "--files-from",
            "-g",
            "--listed-incremental",
            "--volno-file",
        ],
        writes: &["--index-file"],
        inside: &["-C", "--directory", "--one-top-level"],
        known: &["--checkpoint", "--file", "--list"],
        flags: "cxtruAdvzjJZapkmSUwWhlnisO",
        extra: Extra::BareBundle,
        ..NONE
    },
    Guard {
        heads: &[
            "nm",
            "gcc-nm",
            "objdump",
            "readelf",
            "strings",
            "size",
            "strip",
            "objcopy",
            "addr2line",
            "ar",
            "gcc-ar",
            "ranlib",
        ],
        // A library that is loaded; a file of options may name it too.
        refused: &["--plugin"],
        extra: Extra::NoOperandFrom("@"),
        ..NONE
    },
    Guard {
        heads: &["man"],
        refused: &[
            "-P",
            "--pager",
            "-H",
            "--html",
            "-C",
            "--config-file",
            "-M",
            "--manpath",
            "-p",
            "--preprocessor",
            "-X",
            "--gxditview",
            "-T",
            "--troff-device",
            "-Z",
            "--ditroff",
            "-l",
            "--local-file",
            "-r",
            "--prompt",
        ],
        valued: "LmSesE",
        ..NONE
    },
    Guard {
        heads: &["date"],
        refused: &["-f", "--file", "-s", "--set"],
        valued: "drI",
        ..NONE
    },
    Guard {
        heads: &["file"],
        refused: &[
            "-f",
            "--files-from",
            "-m",
            "--magic-file",
            "-C",
            "--compile",
            "-z",
            "--uncompress",
            "-Z",
            "--uncompress-noreport",
        ],
        valued: "eFP",
        ..NONE
    },
    Guard {
        heads: &["less", "more"],
        refused: &[
            "-o",
            "--log-file",
            "-O",
            "--LOG-FILE",
            "-k",
            "--lesskey-file",
            "--lesskey-src",
            "--lesskey-content",
            "-T",
            "--tag-file",
            "-t",
            "--tag",
        ],
        extra: Extra::NoOperandFrom("+"),
        ..NONE
    },
    Guard {
        heads: &["jq", "gojq", "jaq"],
        refused: &[
            "-f",
            "--from-file",
            "-L",
            "--library-path",
            "--rawfile",
            "--slurpfile",
            "--argfile",
            "-i",
            "--in-place",
            "--run-tests",
        ],
        known: &["--arg", "--args", "--argjson"],
        // `--arg` takes two words, whatever they are.
        ends: false,
        extra: Extra::Jq,
        ..NONE
    },
    Guard {
        heads: &["yq"],
        refused: &[
            "-i",
            "--inplace",
            "--in-place",
            "-s",
            "--split-exp",
            "--split-exp-file",
            "--from-file",
            "-f",
            "-L",
            "--library-path",
            "--rawfile",
            "--slurpfile",
            "--argfile",
            "--run-tests",
        ],
        known: &["--arg", "--args", "--argjson"],
        valued: "opIw",
        extra: Extra::Yq,
        ..NONE
    },
    Guard {
        heads: &["tree"],
        writes: &["-o", "--output"],
        refused: &["--fromfile", "-R"],
        flags: "adflxpsuhgDFqNQnCASviJXrtcU",
        valued: "LPIH",
        ..NONE
    },
    Guard {
        heads: &["bat", "batcat"],
        refused: &["--pager", "--config-file", "--config-dir", "--cache-dir"],
        ..NONE
    },
    Guard {
        heads: &["xmllint"],
        style: Style::Words,
        writes: &["-o", "-output"],
        refused: &["-catalogs", "-load-trace", "-shell"],
        ..NONE
    },
    Guard {
        heads: &["pandoc"],
        refused: &[
            "-F",
            "--filter",
            "-L",
            "--lua-filter",
            "--pdf-engine",
            "--pdf-engine-opt",
            "--template",
            "-d",
            "--defaults",
            "--data-dir",
            "--extract-media",
            "--request-header",
            "--log",
        ],
        writes: &["-o", "--output"],
        ..NONE
    },
    Guard {
        heads: &["ctags"],
        refused: &["--options", "--options-maybe", "--optlib-dir", "-L"],
        writes: &["-f", "-o", "--output-file"],
        ..NONE
    },
    // They take commands of their own, the shell's among them.
    Guard {
        heads: &[
            "sqlite3", "gdb", "ed", "ex", "vi", "vim", "nvim", "emacs", "nano",
        ],
        extra: Extra::ExactOnly,
        ..NONE
    },
    Guard {
        heads: &["base64", "base32"],
        refused: &["-o", "--output"],
        flags: "diD",
        numeric: "wb",
        ..NONE
    },
    Guard {
        heads: &["printf"],
        refused: &["-v"],
        ..NONE
    },
    Guard {
        heads: &["test", "["],
        ends: false,
        extra: Extra::NoWord(&["-v", "-R"]),
        ..NONE
    },
    // A diff in the old form is a script for `ed`; files may be fetched from a version control system.
    Guard {
        heads: &["patch"],
        refused: &["-e", "--ed", "-g", "--get"],
        writes: &["-o", "--output", "-r", "--reject-file"],
        inside: &["-d", "--directory"],
        flags: "bcElnNRstTuZf",
        valued: "BDFiVYz",
        numeric: "p",
        ..NONE
    },
    Guard {
        heads: &["sdiff", "diff3"],
        refused: &["--diff-program"],
        writes: &["-o", "--output"],
        flags: "iEZbWBadlstAeExXmqH3",
        valued: "wI",
        ..NONE
    },
    Guard {
        heads: &["diff"],
        refused: &["-l", "--paginate"],
        known: &["--label"],
        flags: "qscuyptTarNiEZbwBdHn",
        valued: "xXSFIWLD",
        numeric: "CU",
        ..NONE
    },
    Guard {
        heads: &["ptx"],
        refused: &["-G", "--traditional"],
        extra: Extra::SecondOperandWritten,
        ..NONE
    },
    Guard {
        heads: &["xz", "unxz", "lzma"],
        refused: &["--files", "--files0"],
        flags: "zdtlkfcevqQ0",
        valued: "SFCMT",
        ..NONE
    },
    Guard {
        heads: &["zstd", "unzstd"],
        refused: &["--filelist", "--patch-from"],
        writes: &["-o"],
        inside: &["--output-dir-flat", "--output-dir-mirror"],
        flags: "dzcfkqvrlt",
        valued: "DMT",
        ..NONE
    },
    Guard {
        heads: &["cpio"],
        refused: &["--rsh-command", "-H", "-F", "-O", "-I", "--file"],
        flags: "iopdumvtaABLcfknrsSV",
        valued: "CEMR",
        extra: Extra::Archive,
        ..NONE
    },
    Guard {
        heads: &["info"],
        refused: &["--init-file", "--restore", "--dribble", "--output"],
        writes: &["-o"],
        ..NONE
    },
    Guard {
        heads: &["whatis", "apropos"],
        refused: &["-C", "--config-file", "-M", "--manpath"],
        valued: "LmSes",
        ..NONE
    },
    // They print, unless they are told to change the files.
    Guard {
        heads: &[
            "gofmt",
            "goimports",
            "shfmt",
            "clang-format",
            "yapf",
            "autopep8",
            "dos2unix",
            "unix2dos",
        ],
        refused: &["-cpuprofile", "-memprofile", "-trace", "-style*"],
        known: &[
            "-style=file",
            "-style=llvm",
            "-style=google",
            "-style=gnu",
            "-style=webkit",
            "-style=mozilla",
        ],
        style: Style::Words,
        extra: Extra::InPlace(&["-w", "-i", "--write", "--in-place"]),
        ..NONE
    },
    Guard {
        heads: &["xmlstarlet", "xml"],
        refused: &["--net"],
        known: &["--noent"],
        extra: Extra::InPlace(&["-L", "--inplace"]),
        ..NONE
    },
    Guard {
        heads: &["xsltproc"],
        refused: &["-writesubtree", "-catalogs", "-path", "-load-trace"],
        writes: &["-o", "-output"],
        style: Style::Words,
        ..NONE
    },
    Guard {
        heads: &["tidy"],
        refused: &["-config"],
        writes: &["-o", "-output-file", "-f", "-file"],
        style: Style::Words,
        extra: Extra::InPlace(&["-m", "-modify"]),
        ..NONE
    },
    // They take commands of their own, the shell's among them.
    Guard {
        heads: &[
            "view",
            "vimdiff",
            "rvim",
            "rview",
            "vimtutor",
            "emacsclient",
            "gedit",
            "psql",
            "mysql",
            "mariadb",
            "mysqlsh",
            "duckdb",
            "mongosh",
            "mongo",
            "usql",
            "pgcli",
            "mycli",
            "litecli",
            "dc",
            "m4",
            "ftp",
            "lftp",
            "mail",
            "mailx",
            "mutt",
            "telnet",
            "expect",
            "socat",
        ],
        extra: Extra::ExactOnly,
        ..NONE
    },
    Guard {
        heads: &["openssl"],
        refused: &[
            "-engine",
            "-config",
            "-provider",
            "-provider-path",
            "-provider_path",
            "-CAcreateserial",
            "-rand",
        ],
        writes: &[
            "-out",
            "-keyout",
            "-writerand",
            "-sess_out",
            "-CAserial",
            "-crl_out",
            "-keylogfile",
        ],
        style: Style::Words,
        ends: false,
        ..NONE
    },
    Guard {
        heads: &["gpg", "gpg2"],
        refused: &[
            "--homedir",
            "--options",
            "--photo-viewer",
            "--agent-program",
            "--dirmngr-program",
            "--pinentry-program",
            "--exec-path",
            "--keyserver-options",
            "--passphrase-file",
            "--passphrase-fd",
            "--command-file",
            "--load-extension",
        ],
        writes: &[
            "-o",
            "--output",
            "--log-file",
            "--logger-file",
            "--status-file",
            "--attribute-file",
        ],
        ..NONE
    },
    Guard {
        heads: &["ss"],
        refused: &["-F", "--filter", "-K", "--kill"],
        writes: &["-D", "--diag"],
        ..NONE
    },
    Guard {
        heads: &["tcpdump"],
        refused: &["-z", "-F", "-V"],
        writes: &["-w"],
        ..NONE
    },
    Guard {
        heads: &["dot", "neato", "fdp", "sfdp", "circo", "twopi"],
        refused: &["-O", "-l*"],
        writes: &["-o*"],
        style: Style::Words,
        ..NONE
    },
    Guard {
        heads: &[
            "pdflatex", "latex", "xelatex", "lualatex", "tex", "pdftex", "latexmk",
        ],
        refused: &[
            "-shell-escape",
            "-enable-write18",
            "-shell-restricted",
            "-fmt",
            "-output-comment",
            "-e",
            "-r",
            "-pdflatex",
            "-latex",
            "-lualatex",
            "-xelatex",
            "-pdfxelatex",
            "-pdflualatex",
            "-latexoption",
            "-output-directory",
            "-outdir",
            "-auxdir",
            "-aux-directory",
            "-jobname",
        ],
        style: Style::Words,
        ..NONE
    },
    Guard {
        heads: &["install"],
        refused: &["--strip-program"],
        known: &["--strip"],
        ..NONE
    },
];
