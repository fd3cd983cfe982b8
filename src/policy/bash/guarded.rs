//! Options that a prefix rule does not cover although the tool looks harmless, as data.
//!
//! An option is *refused* if it runs a program, loads configuration or reaches elsewhere; it *writes* if its value is a
//! file that an Edit or Write rule has to cover; it stays *inside* if its value has to lie in the workspace. A rule
//! that is exact, or whose own words name the option, lifts the guard. The table is read by `options`, which knows
//! about abbreviations and bundles.

/// How a tool reads its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `--long[=value]`, abbreviations, bundles of short options.
    Long,
    /// As `Long`, and one dash does for a long option too (npm).
    Either,
    /// Words with one or two dashes, no bundles (`find`, `go`).
    Words,
}

/// What else has to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    Nothing,
    /// No prefix rule at all.
    ExactOnly,
    /// No operand may contain the text.
    NoOperandWith(&'static str),
    /// No URL but of HTTP, in whatever spelling.
    Web,
    /// No operand may begin with the text.
    NoOperandFrom(&'static str),
    /// No argument word may be one of these.
    NoWord(&'static [&'static str]),
    /// All operands are written.
    OperandsWritten,
    /// The second operand is written: `uniq`, whose options take numbers.
    SecondOperandWritten,
    /// As before, for `xxd` with its options of its own kind.
    Xxd,
    /// No `NAME=value` operand.
    NoVariables,
    /// Options may be bundled in the first word without a dash.
    BareBundle,
    /// Subcommands that run what they are told, unless the rule names them.
    Subcommands(&'static [&'static str]),
    /// Options belong to the script once the rule names one.
    Interpreter,
    Sed,
    Awk,
    Jq,
    Yq,
}

/// One row: some heads, perhaps only some of their subcommands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    pub(super) heads: &'static [&'static str],
    /// Empty: all.
    pub(super) subcommands: &'static [&'static str],
    pub(super) style: Style,
    /// An entry that ends in `*` is a prefix.
    pub(super) refused: &'static [&'static str],
    pub(super) writes: &'static [&'static str],
    pub(super) inside: &'static [&'static str],
    /// Long options that look like abbreviations of the others and are none; an entry that ends in `*` is a prefix, and
    /// an exception to an entry of the others.
    pub(super) known: &'static [&'static str],
    /// Short options without a value. One that is in none of the three lists may take the rest of its bundle or not:
    /// then no guarded letter may follow.
    pub(super) flags: &'static str,
    /// Short options that cannot be without a value: the rest of their bundle is no option. An option that some
    /// subcommand or some version of the tool reads otherwise has no place here.
    pub(super) valued: &'static str,
    /// Short options that take a number, or perhaps none: only digits of their bundle are no options.
    pub(super) numeric: &'static str,
    /// Whether `--` ends the options.
    pub(super) ends: bool,
    pub(super) extra: Extra,
}

const NONE: Guard = Guard {
    heads: &[],
    subcommands: &[],
    style: Style::Long,
    refused: &[],
    writes: &[],
    inside: &[],
    known: &[],
    flags: "",
    valued: "",
    numeric: "",
    ends: true,
    extra: Extra::Nothing,
};

/// Global options of git that take a value as a word of their own.
pub(super) const GIT_GLOBAL_VALUED: [&str; 8] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
    "--attr-source",
];

/// Global options of git that a prefix rule may leave open.
pub(super) const GIT_GLOBAL_HARMLESS: [&str; 7] = [
    "--no-pager",
    "--version",
    "--help",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-replace-objects",
    "--no-lazy-fetch",
];

/// The table. Rows of one head add up.
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
        known: &["--text", "--remotes"],
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
            "config",
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
        extra: Extra::NoWord(&["run"]),
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
        refused: &["-x"],
        flags: "qvnfmi",
        valued: "sX",
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
        heads: &["find"],
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
        refused: &["--pager", "--ackrc", "-p", "--path-to-ignore"],
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
        known: &["--checkpoint"],
        flags: "cxtruAdvzjJZapkmSUwWhlnisO",
        extra: Extra::BareBundle,
        ..NONE
    },
    Guard {
        heads: &["curl"],
        refused: &[
            "-o",
            "--output",
            "--output-dir",
            "-O",
            "--remote-name",
            "--remote-name-all",
            "--remote-header-name",
            "-J",
            "-K",
            "--config",
            "-T",
            "--upload-file",
            "-F",
            "--form",
            "--form-string",
            "-d",
            "--data",
            "--data-ascii",
            "--data-binary",
            "--data-raw",
            "--data-urlencode",
            "--json",
            "-x",
            "--proxy*",
            "--preproxy",
            "--socks4",
            "--socks4a",
            "--socks5",
            "--socks5-hostname",
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "-b",
            "--cookie",
            "--unix-socket",
            "--abstract-unix-socket",
            "--trace",
            "--trace-ascii",
            "--netrc",
            "--netrc-file",
            "--netrc-optional",
            "-n",
            "-E",
            "--cert",
            "--key",
            "--cacert",
            "--capath",
            "--engine",
            "--libcurl",
            "--stderr",
            "--etag-save",
            "--etag-compare",
            "--hsts",
            "--alt-svc",
            "--variable",
            "--resolve",
            "--connect-to",
            "--dns-servers",
            "--doh-url",
            "--interface",
            "--proto-redir",
            "--create-file-mode",
            "-t",
            "--telnet-option",
            "-Q",
            "--quote",
            "--ftp-create-dirs",
            "--random-file",
            "--egd-file",
            "--crlfile",
            "--pubkey",
            "--url-query",
            "-w",
            "--write-out",
            "-H",
            "--header",
            "--proxy-header",
            "--proto-default",
            "--expand-*",
        ],
        flags: "afGgI0ikjlLMNZ#pRSs1234:qBvV6",
        valued: "AemruUXyYzPC",
        extra: Extra::Web,
        ..NONE
    },
    Guard {
        heads: &["wget"],
        extra: Extra::ExactOnly,
        ..NONE
    },
    Guard {
        heads: &["rsync"],
        refused: &[
            "-e",
            "--rsh",
            "--rsync-path",
            "-M",
            "--remote-option",
            "--config",
            "--password-file",
            "--daemon",
        ],
        writes: &["--log-file", "--write-batch", "--only-write-batch"],
        valued: "fTB",
        ..NONE
    },
    Guard {
        heads: &["ssh"],
        refused: &[
            "-o", "-F", "-S", "-J", "-D", "-L", "-R", "-W", "-w", "-E", "-I", "-A", "-X", "-Y",
        ],
        valued: "plicbmBeOQ",
        ..NONE
    },
    Guard {
        heads: &["scp"],
        refused: &["-o", "-F", "-S", "-J", "-D", "-A", "-X"],
        valued: "licP",
        ..NONE
    },
    // What it reads from its input may be a command of the shell.
    Guard {
        heads: &["sftp"],
        extra: Extra::ExactOnly,
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
        heads: &["npm", "pnpm", "yarn", "bun"],
        style: Style::Either,
        refused: &[
            "--script-shell",
            "--shell",
            "--node-options",
            "--prefix",
            "-C",
            "--dir",
            "--cwd",
            "--userconfig",
            "--globalconfig",
            "--registry",
            "--git",
            "--editor",
            "--viewer",
            "--browser",
            "--init-module",
            "--use-yarnrc",
            "--global",
            "-g",
            "--config",
            "--cafile",
            "--https-proxy",
            "--proxy",
            "--local-prefix",
            "--pnpmfile",
            "--global-pnpmfile",
            "--preload",
            "--require",
            "-c",
            "--call",
        ],
        known: &["--dry-run", "--color", "--no", "--ca"],
        valued: "wF",
        ..NONE
    },
    Guard {
        heads: &["bun"],
        refused: &["-r", "-c"],
        ..NONE
    },
    Guard {
        heads: &["cargo"],
        refused: &["--config", "-Z", "-C"],
        inside: &[
            "--manifest-path",
            "--target-dir",
            "--out-dir",
            "--artifact-dir",
            "--lockfile-path",
            "--path",
        ],
        known: &["--color"],
        valued: "pF",
        numeric: "j",
        flags: "vqrh",
        extra: Extra::NoOperandFrom("+"),
        ..NONE
    },
    Guard {
        heads: &["make", "gmake"],
        refused: &[
            "-f",
            "--file",
            "--makefile",
            "-C",
            "--directory",
            "-I",
            "--include-dir",
            "--eval",
            "-E",
        ],
        flags: "bmBdeiknpqrRsStvwL",
        valued: "oW",
        numeric: "jl",
        extra: Extra::NoVariables,
        ..NONE
    },
    Guard {
        heads: &["go"],
        style: Style::Words,
        refused: &[
            "-exec",
            "-toolexec",
            "-vettool",
            "-overlay",
            "-ldflags",
            "-gccgoflags",
            "-gcflags",
            "-asmflags",
            "-modfile",
            "-C",
            "-pkgdir",
            "-compiler",
            "-modcacherw",
            "-pgo",
            // `go env -w` sets flags for every later call.
            "-w",
        ],
        writes: &[
            "-o",
            "-coverprofile",
            "-cpuprofile",
            "-memprofile",
            "-blockprofile",
            "-mutexprofile",
            "-trace",
            "-outputdir",
            "-test.coverprofile",
            "-test.cpuprofile",
            "-test.memprofile",
            "-test.blockprofile",
            "-test.mutexprofile",
            "-test.trace",
            "-test.outputdir",
            "-test.testlogfile",
            "-test.gocoverdir",
        ],
        ends: false,
        ..NONE
    },
    Guard {
        heads: &["pytest", "py.test"],
        refused: &[
            "-p",
            "-c",
            "--config-file",
            "-o",
            "--override-ini",
            "--rootdir",
            "--confcutdir",
            "--pdbcls",
            "--pastebin",
            "--import-mode",
        ],
        writes: &[
            "--junitxml",
            "--junit-xml",
            "--log-file",
            "--report-log",
            "--basetemp",
            "--debug",
        ],
        known: &["--color", "--co", "--collect-only", "--pdb"],
        valued: "kmnrW",
        extra: Extra::NoOperandFrom("@"),
        ..NONE
    },
    Guard {
        heads: &["node", "nodejs"],
        refused: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-e",
            "--eval",
            "-p",
            "--print",
            "-pe",
            "--env-file",
            "--env-file-if-exists",
            "--inspect",
            "--inspect-brk",
            "--inspect-wait",
            "--openssl-config",
            "--icu-data-dir",
            "-C",
            "--conditions",
            "--build-snapshot",
            "--build-snapshot-config",
            "--snapshot-blob",
            "--experimental-config-file",
            "--experimental-default-config-file",
            "--run",
            "-i",
            "--interactive",
            "--test-global-setup",
            "--experimental-sea-config",
            "--build-sea",
            "--experimental-policy",
        ],
        writes: &[
            "--diagnostic-dir",
            "--test-reporter-destination",
            "--report-directory",
            "--redirect-warnings",
            "--trace-event-file-pattern",
            "--cpu-prof-dir",
            "--heap-prof-dir",
            "--tls-keylog",
            "--report-filename",
            "--localstorage-file",
        ],
        known: &["--test"],
        extra: Extra::Interpreter,
        ..NONE
    },
    Guard {
        heads: &["gradle", "gradlew"],
        style: Style::Words,
        refused: &[
            "-I*",
            "-init-script",
            "-b",
            "-build-file",
            "-c",
            "-settings-file",
            "-p",
            "-project-dir",
            "-g",
            "-gradle-user-home",
            "-include-build",
            "-D*",
            "-system-prop",
        ],
        ..NONE
    },
    Guard {
        heads: &["mvn", "mvnw"],
        style: Style::Words,
        refused: &[
            "-f",
            "-file",
            "-s",
            "-settings",
            "-gs",
            "-global-settings",
            "-t",
            "-toolchains",
            "-l",
            "-log-file",
            // A property can name a program or a library.
            "-D*",
            "-define",
        ],
        known: &[
            "-DskipTests*",
            "-Dtest=*",
            "-Dit.test=*",
            "-Dmaven.test.skip*",
            "-Dstyle.color=*",
        ],
        ..NONE
    },
    Guard {
        heads: &["pip", "pip3"],
        refused: &[
            "-i",
            "--index-url",
            "--extra-index-url",
            "-f",
            "--find-links",
            "--proxy",
            "--python",
            "--config-settings",
            "-C",
            "-t",
            "--target",
            "--prefix",
            "--root",
            "--src",
            "--log",
            "--report",
            "--cert",
            "--trusted-host",
        ],
        valued: "rce",
        ..NONE
    },
    Guard {
        heads: &["eslint"],
        refused: &[
            "-c",
            "--config",
            "--rulesdir",
            "--plugin",
            "--resolve-plugins-relative-to",
            "--parser",
            "-f",
            "--format",
            "--flag",
        ],
        writes: &["-o", "--output-file", "--cache-location", "--cache-file"],
        ..NONE
    },
    Guard {
        heads: &["prettier"],
        refused: &[
            "--plugin",
            "--plugin-search-dir",
            "--config",
            "--find-config-path",
        ],
        writes: &["--cache-location"],
        known: &["--config-precedence"],
        ..NONE
    },
    Guard {
        heads: &["jest", "vitest", "mocha"],
        refused: &[
            "-c",
            "--config",
            "-r",
            "--require",
            "--import",
            "--globalSetup",
            "--globalTeardown",
            "--setupFiles",
            "--setupFilesAfterEnv",
            "--testRunner",
            "--runner",
            "--resolver",
            "--transform",
            "--testEnvironment",
            "--environment",
            "--reporters",
            "--reporter",
            "--rootDir",
            "--root",
            "--dir",
            "--package",
            "--opts",
            "--filter",
            "--preset",
            "--projects",
        ],
        writes: &[
            "--outputFile",
            "--coverageDirectory",
            "--cacheDirectory",
            "--coverage.reportsDirectory",
        ],
        known: &["--run"],
        ..NONE
    },
    Guard {
        heads: &["tsc"],
        style: Style::Either,
        refused: &["--plugins"],
        writes: &[
            "--outDir",
            "--outFile",
            "--declarationDir",
            "--tsBuildInfoFile",
            "--generateTrace",
            "--generateCpuProfile",
        ],
        known: &["--declaration", "--project"],
        extra: Extra::NoOperandFrom("@"),
        ..NONE
    },
    Guard {
        heads: &["mypy"],
        refused: &[
            "--config-file",
            "--python-executable",
            "--custom-typeshed-dir",
        ],
        writes: &[
            "--junit-xml",
            "--html-report",
            "--txt-report",
            "--xml-report",
            "--linecount-report",
            "--any-exprs-report",
            "--cobertura-xml-report",
            "--cache-dir",
        ],
        valued: "mpc",
        extra: Extra::NoOperandFrom("@"),
        ..NONE
    },
    Guard {
        heads: &["ruff"],
        refused: &["--config"],
        writes: &["-o", "--output-file", "--cache-dir"],
        ..NONE
    },
    Guard {
        heads: &["gh"],
        refused: &["-R", "--repo", "-w", "--web", "--hostname"],
        valued: "Lq",
        ..NONE
    },
    Guard {
        heads: &["gh"],
        extra: Extra::Subcommands(&["alias", "extension", "ext", "codespace", "cs", "config"]),
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
];

/// The rows that concern a command.
pub(super) fn rows(head: &str) -> impl Iterator<Item = &'static Guard> + '_ {
    TABLE
        .iter()
        .filter(move |guard| guard.heads.contains(&head))
}

/// Whether a prefix rule on a tool covers nothing but the rule's own words.
pub(in super::super) fn needs_exact_rule(head: &str, subcommand: Option<&str>) -> bool {
    rows(head).any(|guard| {
        let applies = guard.subcommands.is_empty()
            || subcommand.is_some_and(|name| guard.subcommands.contains(&name));
        applies && guard.extra == Extra::ExactOnly
    })
}

/// The table as a person reads it: the tools, and the options that a prefix rule on them does not cover.
#[must_use]
pub fn guarded_options() -> Vec<(String, Vec<&'static str>)> {
    TABLE
        .iter()
        .map(|guard| {
            let tools = [guard.heads.join(", "), guard.subcommands.join(", ")];
            let options = [guard.refused, guard.writes, guard.inside].concat();
            (tools.join(" ").trim_end().to_owned(), options)
        })
        .filter(|(_, options)| !options.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_an_option_and_every_row_has_a_head() {
        for guard in TABLE {
            assert!(!guard.heads.is_empty());
            for option in guard.refused.iter().chain(guard.writes).chain(guard.inside) {
                assert!(option.starts_with('-') && option.len() > 1, "{option}");
            }
            for option in guard.known {
                assert!(
                    option.starts_with("--") || guard.style == Style::Words,
                    "{option}"
                );
            }
            for letter in guard.flags.chars().chain(guard.valued.chars()) {
                let option = format!("-{letter}");
                let guarded = [guard.refused, guard.writes, guard.inside].concat();
                assert!(
                    !guarded.contains(&option.as_str()),
                    "{option} of {:?}",
                    guard.heads
                );
            }
        }
    }
}
