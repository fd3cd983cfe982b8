//! Programs that run other programs: shells, wrappers, and the few wrappers that a rule sees through.

use super::words::Word;

/// Most commands of one simple command that run one another.
pub(super) const MAX_NESTED: usize = 16;

/// Shells: they run text.
pub(super) const SHELLS: [&str; 13] = [
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "pwsh",
    "elvish",
];

/// Builtins that change the shell, or run or evaluate their arguments: no rule opens them.
const STATE_BUILTINS: [&str; 42] = [
    "eval",
    "source",
    ".",
    "exec",
    "command",
    "builtin",
    "trap",
    "alias",
    "unalias",
    "enable",
    "hash",
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "set",
    "shopt",
    "let",
    "read",
    "mapfile",
    "readarray",
    "unset",
    "getopts",
    "complete",
    "compgen",
    "compopt",
    "bind",
    "fc",
    "history",
    "pushd",
    "popd",
    "dirs",
    "umask",
    "ulimit",
    "jobs",
    "fg",
    "bg",
    "disown",
    "suspend",
    "wait",
    "logout",
];

/// A wrapper: the short options that take a value as a word of their own, and the operands before the command.
struct Wrapper {
    name: &'static str,
    valued: &'static str,
    operands: usize,
}

const fn wrapper(name: &'static str, valued: &'static str, operands: usize) -> Wrapper {
    Wrapper {
        name,
        valued,
        operands,
    }
}

/// Programs whose whole purpose is to run their arguments.
const WRAPPERS: [Wrapper; 94] = [
    wrapper("proot", "rbwqk", 0),
    wrapper("cpulimit", "lpe", 0),
    wrapper("chronic", "", 0),
    wrapper("faketime", "", 1),
    wrapper("rlwrap", "", 0),
    wrapper("sudo", "ughpCTRDUrt", 0),
    wrapper("doas", "uC", 0),
    wrapper("env", "uCS", 0),
    wrapper("nohup", "", 0),
    wrapper("timeout", "ks", 1),
    wrapper("nice", "n", 0),
    wrapper("ionice", "cnp", 0),
    wrapper("stdbuf", "ioe", 0),
    wrapper("setsid", "", 0),
    wrapper("time", "fo", 0),
    wrapper("command", "", 0),
    wrapper("builtin", "", 0),
    wrapper("exec", "a", 0),
    wrapper("xargs", "IiLlnPsadEe", 0),
    wrapper("watch", "n", 0),
    wrapper("parallel", "jNaS", 0),
    wrapper("busybox", "", 0),
    wrapper("toybox", "", 0),
    wrapper("strace", "eopPs", 0),
    wrapper("ltrace", "eops", 0),
    wrapper("script", "cEITBOo", 0),
    wrapper("flock", "wE", 1),
    wrapper("unshare", "SG", 0),
    wrapper("chroot", "", 1),
    wrapper("nsenter", "tSG", 0),
    wrapper("setpriv", "", 0),
    wrapper("systemd-run", "pMHE", 0),
    wrapper("systemd-inhibit", "", 0),
    wrapper("unbuffer", "", 0),
    wrapper("taskset", "", 1),
    wrapper("chrt", "", 1),
    wrapper("numactl", "", 0),
    wrapper("prlimit", "", 0),
    wrapper("fakeroot", "", 0),
    wrapper("firejail", "", 0),
    wrapper("bwrap", "", 0),
    wrapper("su", "c", 1),
    wrapper("runuser", "uc", 0),
    wrapper("pkexec", "", 0),
    wrapper("valgrind", "", 0),
    wrapper("catchsegv", "", 0),
    wrapper("torsocks", "", 0),
    wrapper("proxychains", "f", 0),
    wrapper("dbus-run-session", "", 0),
    wrapper("xvfb-run", "", 0),
    wrapper("capsh", "", 0),
    wrapper("chpst", "uUboc", 0),
    wrapper("concurrently", "", 0),
    wrapper("cross-env", "", 0),
    wrapper("daemonize", "", 0),
    wrapper("dotenv", "", 0),
    wrapper("dtach", "", 1),
    wrapper("dumb-init", "", 0),
    wrapper("eatmydata", "", 0),
    wrapper("entr", "", 0),
    wrapper("envdir", "", 1),
    wrapper("gosu", "", 1),
    wrapper("heaptrack", "", 0),
    wrapper("hyperfine", "wmrMspPSLnuo", 0),
    wrapper("i386", "", 0),
    wrapper("ifne", "", 0),
    wrapper("linux32", "", 0),
    wrapper("linux64", "", 0),
    wrapper("lckdo", "", 0),
    wrapper("nodemon", "", 0),
    wrapper("npm-run-all", "", 0),
    wrapper("nyc", "", 0),
    wrapper("c8", "", 0),
    wrapper("pee", "", 0),
    wrapper("proxychains4", "", 0),
    wrapper("rr", "", 0),
    wrapper("runcon", "", 0),
    wrapper("screen", "", 0),
    wrapper("sem", "", 0),
    wrapper("setarch", "", 1),
    wrapper("setlock", "", 1),
    wrapper("sg", "", 1),
    wrapper("softlimit", "", 0),
    wrapper("ssh-agent", "acEktP", 0),
    wrapper("sshpass", "pfPd", 0),
    wrapper("start-stop-daemon", "", 0),
    wrapper("su-exec", "", 1),
    wrapper("tini", "p", 0),
    wrapper("tmux", "", 0),
    wrapper("torify", "", 0),
    wrapper("tsocks", "", 0),
    wrapper("uname26", "", 0),
    wrapper("watchexec", "wefodsEN", 0),
    wrapper("wine", "", 0),
];

/// Programs that also run their arguments, but are ordinary tools of a build otherwise.
const ALSO_RUN: [&str; 64] = [
    "gdb",
    "kubectl",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "ld.so",
    "npx",
    "bunx",
    "pnpx",
    "pnpm",
    "yarn",
    "npm",
    "bun",
    "uvx",
    "uv",
    "pipx",
    "docker",
    "podman",
    "ssh",
    "nix-shell",
    "perf",
    "poetry",
    "bundle",
    "pipenv",
    "pdm",
    "hatch",
    "rye",
    "conda",
    "mamba",
    "micromamba",
    "rustup",
    "nix",
    "opam",
    "dune",
    "mix",
    "direnv",
    "mise",
    "rtx",
    "asdf",
    "pyenv",
    "rbenv",
    "nodenv",
    "nvm",
    "volta",
    "fnm",
    "stack",
    "cabal",
    "tox",
    "choom",
    "uclampset",
    "aws-vault",
    "op",
    "doppler",
    "chamber",
    "envchain",
    "guix",
    "mispipe",
    "multipass",
    "lima",
    "limactl",
    "vagrant",
    "coreutils",
    "hermit",
    "devbox",
    "flox",
];

/// The last component of a command name.
pub(in super::super) fn basename(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Whether a command is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&basename(name))
}

/// Whether a command changes the shell that runs it.
pub(in super::super) fn is_state_builtin(name: &str) -> bool {
    STATE_BUILTINS.contains(&name)
}

/// Whether a command runs some of its arguments as a command.
pub(super) fn runs_arguments(name: &str) -> bool {
    let name = basename(name);
    is_wrapper(name) || ALSO_RUN.contains(&name)
}

/// Whether a command's whole purpose is to run its arguments.
pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

/// Whether more commands than anybody needs run one another: each is one more way to read the words behind it.
pub(super) fn too_deep(words: &[Word]) -> bool {
    let runs = |word: &&Word| {
        let name = basename(&word.text);
        is_wrapper(name) || is_shell(name) || name == "eval"
    };
    let behind = words.first().is_some_and(|head| {
        runs_arguments(&head.text) || is_shell(&head.text) || head.text == "eval"
    });
    behind && words.iter().filter(runs).nth(MAX_NESTED).is_some()
}

/// Whether words name nothing but shells and wrappers with their options: as a prefix they would grant every command.
pub(in super::super) fn grants_everything(words: &[String]) -> bool {
    let mut rest = words;
    while let Some((head, arguments)) = rest.split_first() {
        let name = basename(head);
        if is_shell(name) {
            return skip_options(arguments, "oO").is_empty();
        }
        let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) else {
            return false;
        };
        rest = skip_options(arguments, wrapper.valued);
        while name == "env" && rest.first().is_some_and(|word| word.contains('=')) {
            rest = &rest[1..];
        }
        rest = rest.get(wrapper.operands..).unwrap_or_default();
    }
    true
}

fn skip_options<'a>(mut words: &'a [String], valued: &str) -> &'a [String] {
    while let Some((word, rest)) = words.split_first() {
        let Some(option) = word.strip_prefix(['-', '+']) else {
            break;
        };
        let takes_value = option.len() == 1 && valued.contains(option);
        words = if takes_value {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
    }
    words
}

/// Where the command behind a transparent wrapper begins, if `words` start with one that is understood as a whole.
pub(super) fn behind_transparent(words: &[Word]) -> Option<usize> {
    let text = |index: usize| words.get(index).and_then(Word::literal);
    let mut at = 1;
    match text(0)? {
        "nohup" => {}
        "nice" => match text(1)? {
            "-n" => {
                text(2).filter(|value| is_integer(value))?;
                at = 3;
            }
            word => {
                let value = word
                    .strip_prefix("--adjustment=")
                    .or_else(|| word.strip_prefix("-n"));
                if value.is_some_and(is_integer) {
                    at = 2;
                }
            }
        },
        "stdbuf" => {
            while let Some(mode) = text(at).and_then(|word| word.strip_prefix(['-'])) {
                let mode = mode.strip_prefix(['i', 'o', 'e'])?;
                if mode.is_empty() {
                    at += 1;
                }
                let mode = if mode.is_empty() { text(at)? } else { mode };
                let number = mode.trim_end_matches(['K', 'M', 'G']);
                (mode == "L" || !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
                    .then_some(())?;
                at += 1;
            }
            (at > 1).then_some(())?;
        }
        "timeout" => {
            while let Some(word) = text(at).filter(|word| word.starts_with('-')) {
                at += match word {
                    "-v" | "--verbose" | "--foreground" | "--preserve-status" | "-f" | "-p" => 1,
                    "-k" => text(at + 1).filter(|value| is_duration(value)).map(|_| 2)?,
                    "-s" => text(at + 1).filter(|value| is_signal(value)).map(|_| 2)?,
                    _ => {
                        let duration = word
                            .strip_prefix("--kill-after=")
                            .or_else(|| word.strip_prefix("-k"));
                        let signal = word
                            .strip_prefix("--signal=")
                            .or_else(|| word.strip_prefix("-s"));
                        (duration.is_some_and(is_duration) || signal.is_some_and(is_signal))
                            .then_some(1)?
                    }
                };
            }
            text(at).filter(|value| is_duration(value))?;
            at += 1;
        }
        _ => return None,
    }
    // What starts like an option is none that is known here.
    text(at).filter(|head| !head.starts_with('-')).map(|_| at)
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn is_duration(text: &str) -> bool {
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && number.matches('.').count() <= 1
}

fn is_signal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> bool {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        grants_everything(&words)
    }

    #[test]
    fn a_prefix_of_wrappers_and_options_grants_everything() {
        for text in [
            "bash",
            "sh -c",
            "bash -o pipefail -c",
            "xargs",
            "env",
            "env -i A=1",
            "sudo",
            "sudo -u root bash",
            "timeout 60",
            "/usr/bin/env",
            "nice -n 5",
            "nohup sh -c",
        ] {
            assert!(grants(text), "{text}");
        }
        for text in [
            "bash scripts/ci.sh",
            "sudo apt-get",
            "timeout 60 npm",
            "python3",
            "env A=1 npm",
        ] {
            assert!(!grants(text), "{text}");
        }
    }

    #[test]
    fn wrappers_are_not_nested_without_end() {
        let deep = |count: usize, name: &str| {
            let line = format!("{name} ").repeat(count) + "id";
            let words: Vec<Word> = line.split(' ').map(Word::from_text).collect();
            too_deep(&words)
        };
        assert!(!deep(MAX_NESTED, "sudo") && deep(MAX_NESTED + 1, "sudo"));
        assert!(deep(17, "sudo -n sh") && deep(17, "/usr/bin/env -i"));
        assert!(!deep(100, "echo sudo") && !deep(1, "xargs a b c"));
    }

    #[test]
    fn only_fully_understood_wrappers_are_transparent() {
        let behind = |text: &str| {
            let words: Vec<Word> = text.split(' ').map(Word::from_text).collect();
            behind_transparent(&words)
        };
        assert_eq!(behind("timeout -k 5 60s npm test"), Some(4));
        assert_eq!(behind("timeout --signal=KILL 1.5m npm"), Some(3));
        assert_eq!(behind("nice npm"), Some(1));
        assert_eq!(behind("nice -n -5 npm"), Some(3));
        assert_eq!(behind("stdbuf -oL -e 0 npm"), Some(4));
        for text in [
            "timeout npm test",
            "timeout --x 5 npm",
            "nice -x npm",
            "stdbuf npm",
            "sudo npm",
            "timeout 5",
            "nohup",
        ] {
            assert_eq!(behind(text), None, "{text}");
        }
    }
}
