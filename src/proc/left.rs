//! What is told of processes that outlive their call, before they are killed: number, command line, and the ports that they
//! listen on. Somebody will want to know which server the agent forgot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;

use crate::text;

/// Most processes that are told one by one.
const MOST_TOLD: usize = 8;
/// Most bytes of a command line that are told.
const COMMAND: usize = 100;
/// Most bytes that are read of a file of `/proc`.
const MOST_READ: u64 = 1024 * 1024;
/// The state of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// One line for each process.
pub(super) fn tell(processes: &[i32]) -> Vec<String> {
    let ports: BTreeMap<u64, u16> = ["tcp", "tcp6"]
        .iter()
        .flat_map(|table| listeners(&read(&format!("/proc/self/net/{table}"))))
        .collect();
    let told = processes.iter().take(MOST_TOLD);
    told.map(|pid| {
        line(
            *pid,
            &read(&format!("/proc/{pid}/cmdline")),
            &ports_of(*pid, &ports),
        )
    })
    .collect()
}

fn line(pid: i32, command: &str, ports: &BTreeSet<u16>) -> String {
    let command = command.trim_end_matches('\0').replace('\0', " ");
    let command = text::visible_line(&text::head(&command, COMMAND));
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    if ports.is_empty() {
        format!("{pid} `{command}`")
    } else {
        format!("{pid} `{command}`, listening on {}", ports.join(", "))
    }
}

fn ports_of(pid: i32, ports: &BTreeMap<u64, u16>) -> BTreeSet<u16> {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let links = open.into_iter().flatten().flatten();
    links
        .filter_map(|entry| entry.path().read_link().ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            ports.get(&inode.parse().ok()?).copied()
        })
        .collect()
}

/// The inodes of listening sockets, with their ports, from a table of `/proc/net`.
fn listeners(table: &str) -> Vec<(u64, u16)> {
    let listener = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        let inode = fields.get(9)?.parse().ok()?;
        (*fields.get(3)? == LISTENS).then_some((inode, u16::from_str_radix(port, 16).ok()?))
    };
    table.lines().filter_map(listener).collect()
}

fn read(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        let _ = file.take(MOST_READ).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1 0 100 0 0 10 0\n\
                     1: 0100007F:1F91 0100007F:0050 01 00000000:00000000 00:00000000 00000000 0 0 78 1 0 100 0 0 10 0\n\
                     garbage\n";
        assert_eq!(listeners(table), [(77, 8080)]);
    }

    #[test]
    fn a_line_is_short_and_harmless() {
        let told = line(
            7,
            "node\0server.js\0\u{1b}[31m\0",
            &BTreeSet::from([80, 8080]),
        );
        assert_eq!(told, "7 `node server.js \\x1b[31m`, listening on 80, 8080");
        assert!(line(7, &"x".repeat(1000), &BTreeSet::new()).len() < 130);
    }
}
