//! What runs on the JVM and on .NET.

use super::{Extra, Guard, NONE, Style};

pub(super) const TABLE: &[Guard] = &[
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
        inside: &["-project-cache-dir"],
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
        heads: &["java"],
        refused: &[
            "-javaagent*",
            "-agentlib*",
            "-agentpath*",
            "-XX:OnError*",
            "-XX:OnOutOfMemoryError*",
            "-XX:Flags*",
            "-XX:VMOptionsFile*",
            "-XX:LogFile*",
            "-XX:ErrorFile*",
            "-XX:HeapDumpPath*",
            "-XX:SharedArchiveFile*",
            "-XX:StartFlightRecording*",
            "-XX:+Flight*",
            "-Xlog*",
            "-Xloggc*",
            "-Xbootclasspath*",
            "-Xrun*",
            "-Xshare*",
            "-D*",
            "-patch-module*",
            "-upgrade-module-path*",
        ],
        style: Style::Words,
        extra: Extra::Interpreter,
        ..NONE
    },
    Guard {
        heads: &["javac", "kotlinc", "scalac"],
        refused: &[
            "-processor",
            "-processorpath",
            "-processor-path",
            "-Xplugin*",
            "-J*",
            "-Xcompiler-plugin*",
        ],
        writes: &["-d", "-s", "-h"],
        style: Style::Words,
        extra: Extra::NoOperandFrom("@"),
        ..NONE
    },
    Guard {
        heads: &["dotnet"],
        refused: &[
            "--test-adapter-path",
            "--settings",
            "--logger",
            "--diag",
            "--additionalprobingpath",
            "--additional-deps",
            "--depsfile",
            "--runtimeconfig",
            "-l",
            "-s",
            "-p",
            "--property",
            "--configfile",
            "--source",
        ],
        writes: &["-o", "--output", "--results-directory"],
        known: &[
            "--logger=trx",
            "--logger=console",
            "-l=trx",
            "-l=console",
            "--project",
        ],
        valued: "cvfr",
        ..NONE
    },
    Guard {
        heads: &["dotnet"],
        extra: Extra::NoOperandFrom("/"),
        ..NONE
    },
    Guard {
        heads: &["dotnet"],
        extra: Extra::Subcommands(&[
            "exec",
            "tool",
            "nuget",
            "msbuild",
            "fsi",
            "dev-certs",
            "workload",
            "script",
        ]),
        ..NONE
    },
];
