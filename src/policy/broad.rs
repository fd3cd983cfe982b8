//! Allow rules that allow more than anyone means. For whoever reviews a task file: the gate does not care.
//!
//! Doubted is what has no bound: every command, any code, every host, the whole file system. A rule for the whole
//! workspace (`Edit`, `Edit(**)`) grants what a mode grants without a rule, and is not doubted.

use super::bash::wrappers::basename;
use super::doubt::Doubt;
use super::rule::{Effect, Rule, Specifier};

/// Programs that run whatever code or program their arguments name.
const RUN_ANYTHING: [&str; 44] = [
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
    "uv",
    "uvx",
    "xargs",
    "zsh",
];

impl Rule {
    /// Why an allow rule is broader than its author may think, if it is.
    #[must_use]
    pub fn breadth(&self) -> Option<Doubt> {
        if self.effect() != Effect::Allow {
            return None;
        }
        match self.specifier() {
            Specifier::Whole if self.tool() == "Bash" => Some(Doubt::new(
                "allows every command",
                "name the commands, as in `Bash(cargo test:*)`",
            )),
            Specifier::Whole if self.tool() == "WebFetch" => Some(Doubt::new(
                "reaches every host",
                "name the hosts, as in `WebFetch(domain:docs.rs)`",
            )),
            Specifier::Path(pattern) if pattern.absolute && pattern.is_everything() => {
                Some(Doubt::new(
                    "reaches the whole file system",
                    format!(
                        "name the directories that the task needs, as in `{}(//usr/share/doc/**)`",
                        self.tool()
                    ),
                ))
            }
            Specifier::Words {
                words,
                prefix: true,
            } => match words.as_slice() {
                [program] => runs_anything(basename(program)).then(|| {
                    Doubt::new(
                        format!("allows `{program}` to run any code"),
                        format!("write what it runs, as in `Bash({program} the-script:*)`"),
                    )
                }),
                _ => None,
            },
            _ => None,
        }
    }
}

fn runs_anything(program: &str) -> bool {
    // `python3.12` is python too.
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    RUN_ANYTHING.contains(&program) || RUN_ANYTHING.contains(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breadth(text: &str) -> Option<Doubt> {
        Rule::parse_alone(text, Effect::Allow).unwrap().breadth()
    }

    #[test]
    fn rules_that_have_no_bound_are_doubted() {
        for rule in [
            "Bash",
            "Bash(*)",
            "Bash(python *)",
            "Bash(python3.12:*)",
            "Bash(npx *)",
            "Bash(make:*)",
            "Edit(//**)",
            "Read(//**)",
            "Read(//)",
            "WebFetch",
        ] {
            assert!(breadth(rule).is_some(), "{rule}");
        }
    }

    #[test]
    fn rules_that_say_what_they_mean_and_those_for_the_whole_workspace_are_not() {
        for rule in [
            "Bash(cargo test:*)",
            "Bash(python script.py)",
            "Bash(python script.py *)",
            "Bash(npm run test *)",
            "Bash(7z:*)",
            "Edit(src/**)",
            "Edit",
            "Edit(**)",
            "Write(/**)",
            "Read",
            "Read(//etc/hosts)",
            "WebFetch(domain:docs.rs)",
        ] {
            assert_eq!(breadth(rule), None, "{rule}");
        }
    }

    #[test]
    fn the_list_of_programs_holds_nothing_twice() {
        let mut sorted = RUN_ANYTHING.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), RUN_ANYTHING.len());
    }
}
