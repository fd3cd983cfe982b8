//! Allow rules that allow more than anyone means. Pure: it looks at the text of a rule only.

/// What is doubtful about a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Completes "the rule `…`".
    pub(super) reason: String,
    /// What to write instead.
    pub(super) hint: String,
}

/// Programs that run whatever code or program their arguments name.
const RUN_ANYTHING: [&str; 43] = [
    "ash",
    "awk",
    "bash",
    "bun",
    "bunx",
    "bundle",
    "busybox",
    "chroot",
    "dash",
    "deno",
    "docker",
    "doas",
    "env",
    "eval",
    "exec",
    "fish",
    "gawk",
    "ksh",
    "lua",
    "make",
    "nice",
    "node",
    "nohup",
    "npx",
    "osascript",
    "perl",
    "php",
    "pipx",
    "pnpx",
    "podman",
    "pwsh",
    "python",
    "python2",
    "python3",
    "ruby",
    "sh",
    "ssh",
    "sudo",
    "tclsh",
    "timeout",
    "uvx",
    "xargs",
    "zsh",
];

/// The tool that a rule is about.
pub(super) fn tool_of(rule: &str) -> &str {
    rule.split('(').next().unwrap_or_default().trim()
}

/// What is doubtful about an allow rule, if anything is.
pub(super) fn too_broad(rule: &str) -> Option<Doubt> {
    let rule = rule.trim();
    let (tool, specifier) = match rule.split_once('(') {
        Some((tool, rest)) => (tool.trim(), rest.strip_suffix(')').unwrap_or(rest).trim()),
        None => (rule, ""),
    };
    let doubt = |reason: &str, hint: &str| {
        Some(Doubt {
            reason: reason.to_owned(),
            hint: hint.to_owned(),
        })
    };
    match tool {
        "Bash" => {
            if matches!(specifier, "" | "*" | ":*" | "**") {
                return doubt(
                    "allows every command",
                    "name the commands, as in `Bash(cargo test:*)`",
                );
            }
            let prefix = specifier
                .strip_suffix(":*")
                .or_else(|| specifier.strip_suffix(" *"))?
                .trim();
            let program = prefix.rsplit('/').next().unwrap_or_default();
            // `python3.12` is python too.
            let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            let runs_anything = RUN_ANYTHING.contains(&program) || RUN_ANYTHING.contains(&plain);
            runs_anything.then(|| Doubt {
                reason: format!("allows `{program}` to run any code"),
                hint: format!("write the whole command, as in `Bash({program} the-script)`"),
            })
        }
        "Read" | "Edit" | "Write" | "Glob" | "Grep"
            if matches!(specifier, "//**" | "//*" | "//") =>
        {
            doubt(
                "reaches the whole file system",
                "name the directories that the task needs",
            )
        }
        "WebFetch" if matches!(specifier, "" | "*" | "domain:*") => doubt(
            "reaches every host",
            "name the hosts, as in `WebFetch(domain:docs.rs)`",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_allow_nearly_everything_are_doubted() {
        for rule in [
            "Bash",
            "Bash(*)",
            "Bash(:*)",
            "Bash( * )",
            "Bash(python *)",
            "Bash(python3.12:*)",
            "Bash(npx *)",
            "Bash(/usr/bin/env:*)",
            "Bash(sh *)",
            "Bash(sudo *)",
            "Edit(//**)",
            "Read(//**)",
            "WebFetch",
        ] {
            assert!(too_broad(rule).is_some(), "{rule}");
        }
    }

    #[test]
    fn rules_that_say_what_they_mean_are_not() {
        for rule in [
            "Bash(cargo test:*)",
            "Bash(python script.py)",
            "Bash(python script.py *)",
            "Bash(npm run test *)",
            "Edit(src/**)",
            "Edit",
            "Read(//etc/hosts)",
            "WebFetch(domain:docs.rs)",
            "Bash(7z:*)",
        ] {
            assert_eq!(too_broad(rule), None, "{rule}");
        }
    }

    #[test]
    fn the_list_is_sorted_so_that_nothing_stands_twice() {
        let mut sorted = RUN_ANYTHING.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), RUN_ANYTHING.len());
    }
}
