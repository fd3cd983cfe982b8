//! The tools and package managers of Python.

use super::{Extra, Guard, NONE};

pub(super) const TABLE: &[Guard] = &[
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
            "--tx",
            "--px",
            "--rsyncdir",
            "--cov-config",
            "--ds",
            "--dc",
            "--pythonwarnings",
            "--cov-report",
        ],
        writes: &[
            "--html",
            "--alluredir",
            "--json-report-file",
            "--benchmark-json",
            "--result-log",
            "--resultlog",
            "--junitxml",
            "--junit-xml",
            "--log-file",
            "--report-log",
            "--basetemp",
            "--debug",
        ],
        known: &[
            "--color",
            "--co",
            "--collect-only",
            "--pdb",
            "--cov",
            "--html-report",
            "-p=no:*",
            "--cov-report=",
            "--cov-report=term*",
            "--cov-report=xml",
            "--cov-report=html",
            "--cov-report=json",
            "--cov-report=lcov",
        ],
        valued: "kmnrW",
        extra: Extra::NoOperandFrom("@"),
        firm: true,
        ..NONE
    },
    Guard {
        heads: &["pytest", "py.test"],
        extra: Extra::OperandsInside,
        valued: "kmnrW",
        firm: true,
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
            "--client-cert",
            "--keyring-provider",
            "--global-option",
            "--build-option",
            "--install-option",
            "--use-feature",
            "--dest",
            "--wheel-dir",
        ],
        inside: &["--cache-dir", "-d", "-w"],
        known: &["--pre"],
        valued: "rce",
        ..NONE
    },
    Guard {
        heads: &["mypy"],
        refused: &[
            "--config-file",
            "--python-executable",
            "--custom-typeshed-dir",
            "--shadow-file",
            "--install-types",
        ],
        writes: &[
            "--xslt-html-report",
            "--xslt-txt-report",
            "--linecoverage-report",
            "--lineprecision-report",
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
        firm: true,
        ..NONE
    },
    Guard {
        heads: &["ruff"],
        refused: &["--config"],
        writes: &["-o", "--output-file", "--cache-dir"],
        firm: true,
        ..NONE
    },
    Guard {
        heads: &["pip", "pip3"],
        extra: Extra::Subcommands(&["config", "debug", "index", "cache"]),
        ..NONE
    },
    Guard {
        heads: &["uv"],
        extra: Extra::Subcommands(&["run", "publish", "tool", "python", "self", "auth", "init"]),
        ..NONE
    },
    Guard {
        heads: &["uv"],
        refused: &[
            "--config-file",
            "--directory",
            "--project",
            "--index",
            "--index-url",
            "-i",
            "--default-index",
            "--extra-index-url",
            "-f",
            "--find-links",
            "--python",
            "-p",
            "--keyring-provider",
            "--allow-insecure-host",
            "--env-file",
            "--with-editable",
            "--target",
            "--prefix",
            "--publish-url",
        ],
        inside: &["--cache-dir"],
        known: &["--pre", "--with"],
        valued: "cr",
        firm: true,
        ..NONE
    },
    Guard {
        heads: &["pylint"],
        refused: &[
            "--init-hook",
            "--load-plugins",
            "--rcfile",
            "--spelling-dict",
            "--spelling-store-unknown-words",
            "--spelling-private-dict-file",
            "--import-graph",
            "--ext-import-graph",
            "--int-import-graph",
        ],
        writes: &["--output"],
        known: &["--output-format", "--init-import"],
        flags: "ervEh",
        valued: "djf",
        ..NONE
    },
    Guard {
        heads: &["flake8"],
        refused: &[
            "--config",
            "--append-config",
            "--enable-extensions",
            "--require-plugins",
        ],
        writes: &["--output-file"],
        flags: "vqh",
        valued: "j",
        ..NONE
    },
    Guard {
        heads: &["black"],
        refused: &["--config"],
        inside: &["--cache-dir"],
        flags: "vqSCWh",
        valued: "cltj",
        ..NONE
    },
    Guard {
        heads: &["isort"],
        refused: &[
            "--settings-path",
            "--settings-file",
            "--settings",
            "--sp",
            "--config-root",
            "--formatter",
            "--virtual-env",
            "--conda-env",
        ],
        known: &["--se"],
        ..NONE
    },
    Guard {
        heads: &["pyright", "basedpyright"],
        refused: &[
            "-p",
            "--project",
            "--pythonpath",
            "--venvpath",
            "-v",
            "--createstub",
            "--typeshedpath",
            "-t",
        ],
        ..NONE
    },
    Guard {
        heads: &["tox"],
        refused: &[
            "-c",
            "--conf",
            "-x",
            "--override",
            "--workdir",
            "--root",
            "--runner",
            "--plugins",
        ],
        known: &["--recreate", "--result-json"],
        flags: "vqrpl",
        valued: "ejm",
        ..NONE
    },
    Guard {
        heads: &["nox"],
        refused: &[
            "-f",
            "--noxfile",
            "--envdir",
            "--default-venv-backend",
            "-db",
            "--force-venv-backend",
            "-fb",
            "--script-mode",
            "--script-venv-backend",
        ],
        writes: &["--report"],
        flags: "lrRxv",
        valued: "esktp",
        ..NONE
    },
    Guard {
        heads: &["coverage"],
        extra: Extra::Subcommands(&["run"]),
        ..NONE
    },
    Guard {
        heads: &["coverage"],
        refused: &["--rcfile"],
        writes: &["-o", "--data-file", "--debug-file"],
        inside: &["-d", "--directory"],
        ..NONE
    },
    Guard {
        heads: &["pre-commit"],
        refused: &["-c", "--config", "--hook-dir", "--repo"],
        known: &["--color", "--commit-object-name"],
        ..NONE
    },
    // What they run is for the rule to name, as with `npm exec`.
    Guard {
        heads: &["poetry", "pipenv", "pdm", "hatch", "rye"],
        extra: Extra::Subcommands(&[
            "run", "shell", "config", "publish", "self", "source", "plugin", "python", "tools",
            "open",
        ]),
        ..NONE
    },
    // It writes its second operand.
    Guard {
        heads: &["json.tool"],
        extra: Extra::SecondOperandWritten,
        ..NONE
    },
];
