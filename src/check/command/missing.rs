//! A command that names a program that is not there measures nothing, whatever its exit code is.
//!
//! Exit codes 126 and 127 alone do not say so: scripts hand them on, and a script of the repository that the agent removed is the
//! agent's doing. So only a program that is looked up in `PATH`, where no agent reaches, counts as missing.

use std::path::Path;

/// The words that bash does not look up: its keywords and builtins.
const OWN: &str = "! [ [[ { ( . : alias bg bind break builtin caller case cd command compgen complete compopt continue coproc \
declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help history \
if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend \
test then time times trap true type typeset ulimit umask unalias unset until wait while";

/// The program that the script begins with, if that is a bare name that nothing in `PATH` has.
pub(super) fn missing_program<'a>(script: &'a str, find: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    let first = script.split_whitespace().next()?;
    let is_name = first
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c));
    let is_looked_up = is_name && !OWN.split_whitespace().any(|own| own == first);
    // `name() { .. }` is a function of the script.
    let is_function = script.contains(&format!("{first}()")) || script.contains("alias ");
    (is_looked_up && !is_function && !find(first)).then_some(first)
}

/// Whether one of the directories has an executable file of that name.
pub(super) fn is_in(path: &str, name: &str) -> bool {
    std::env::split_paths(path).any(|directory| is_executable(&directory.join(name)))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_name_that_nothing_has_is_missing() {
        let find = |name: &str| is_in("/usr/bin:/bin", name);
        assert_eq!(missing_program("  carg test --all", &find), Some("carg"));
        for script in [
            "",
            "sh -c 'exit 127'",
            "./test.sh",
            "tests/run",
            "cd x && carg test",
            "FOO=1 carg test",
            "if carg; then exit 127; fi",
            "\"carg\" test",
            "$TOOL test",
            "(carg test)",
            "probe() { exit 127; }; probe",
            "probe; probe() { :; }",
        ] {
            assert_eq!(missing_program(script, &find), None, "{script}");
        }
    }
}
