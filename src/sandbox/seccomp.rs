//! System calls that a build or a test does not need and an escape does. A filter that names what is refused: whatever it
//! does not know passes, and is held by the other layers.
//!
//! Refused calls fail with `EPERM` and end nothing, so a program that only tries goes on. Calls by another ABI (32 bits,
//! x32) have other numbers and would pass a filter unseen: they end the process.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// Which sockets can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Unix and internet.
    All,
    /// Internet, and connected pairs of Unix sockets: the machine's services have paths and names.
    Internet,
    /// Connected pairs of Unix sockets.
    Pairs,
}

/// Refused whatever their arguments are.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Ways into the kernel that a filter does not see, or that had more holes than uses.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Flags of `clone` that make a namespace.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Requests of `ioctl` that put characters into the input of a terminal: `TIOCSTI`, `TIOCLINUX`.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];
/// Bits of a mode by which a file runs with the rights of its owner or group: a file of root's that keeps them in the
/// workspace makes everybody on the machine root, long after the call.
const GIVEN_RIGHTS: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];
/// Flags of `open` with which its mode counts.
const MAKES_FILE: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE];
/// Calls with a mode, and which argument it is.
const WITH_MODE: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];
/// Calls with flags and, behind them, a mode.
const WITH_FLAGS: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];
/// Calls whose arguments are in memory, where a filter cannot look, or that a filter would have to know: they "do not exist",
/// and the C library uses the older ones.
const ABSENT: [libc::c_long; 3] = [libc::SYS_clone3, libc::SYS_openat2, libc::SYS_fchmodat2];
/// Memory, semaphores and queues that the processes of a machine share by a number or a name, and that stay when all of
/// them have ended: refused where there is no namespace for them.
const SHARED: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_semop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];
/// The value of `personality` that only asks.
const ASK: u64 = 0xffff_ffff;
/// The lowest number of an x32 call.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Restricts the calling thread and what it starts, which has `namespaces` of its own or not.
///
/// # Errors
/// The kernel does not take the filters.
pub(super) fn restrict(sockets: Sockets, namespaces: bool) -> io::Result<()> {
    for program in programs(sockets, namespaces).map_err(io::Error::other)? {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The filters: one for each errno.
fn programs(
    sockets: Sockets,
    namespaces: bool,
) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut refused = rules(sockets)?;
    if !namespaces {
        refused.extend(SHARED.iter().map(|number| (*number, Vec::new())));
    }
    let refused = filter(refused, libc::EPERM)?;
    let absent = ABSENT.map(|number| (number, Vec::new()));
    let absent = filter(BTreeMap::from(absent), libc::ENOSYS)?;
    Ok([pinned(refused), absent])
}

fn filter(
    rules: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    errno: libc::c_int,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let action = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)?.try_into()
}

fn rules(
    sockets: Sockets,
) -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<libc::c_long, Vec<SeccompRule>> =
        REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    let when = |conditions: &[(u8, SeccompCmpOp, u64)]| {
        let conditions = conditions.iter().map(|(index, operator, value)| {
            SeccompCondition::new(*index, SeccompCmpArgLen::Dword, operator.clone(), *value)
        });
        SeccompRule::new(conditions.collect::<Result<_, _>>()?)
    };
    let mut clone = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        clone.push(when(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])?);
    }
    rules.insert(libc::SYS_clone, clone);
    let terminal = TERMINAL.map(|request| when(&[(1, SeccompCmpOp::Eq, request)]));
    rules.insert(
        libc::SYS_ioctl,
        terminal.into_iter().collect::<Result<_, _>>()?,
    );
    rules.insert(
        libc::SYS_personality,
        vec![when(&[
            (0, SeccompCmpOp::Ne, 0),
            (0, SeccompCmpOp::Ne, ASK),
        ])?],
    );
    for bit in GIVEN_RIGHTS.map(u64::from) {
        let has_bit = SeccompCmpOp::MaskedEq(bit);
        for (number, mode) in WITH_MODE {
            let rule = when(&[(*mode, has_bit.clone(), bit)])?;
            rules.entry(*number).or_default().push(rule);
        }
        for (number, flags) in WITH_FLAGS {
            for flag in MAKES_FILE.map(|flag| u64::from(flag.unsigned_abs())) {
                let makes_file = (*flags, SeccompCmpOp::MaskedEq(flag), flag);
                let rule = when(&[makes_file, (flags + 1, has_bit.clone(), bit)])?;
                rules.entry(*number).or_default().push(rule);
            }
        }
    }

    let families: &[libc::c_int] = match sockets {
        Sockets::All => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6],
        Sockets::Internet => &[libc::AF_INET, libc::AF_INET6],
        Sockets::Pairs => &[],
    };
    let other: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())))
        .collect();
    let none_of = if other.is_empty() {
        Vec::new()
    } else {
        vec![when(&other)?]
    };
    rules.insert(libc::SYS_socket, none_of);
    let mut pairs = vec![when(&[(
        0,
        SeccompCmpOp::Ne,
        u64::from(libc::AF_UNIX.unsigned_abs()),
    )])?];
    if sockets != Sockets::All {
        // One of a pair of datagram sockets can send to any path; of a stream, only to the other.
        let kind = u64::from(libc::SOCK_DGRAM.unsigned_abs());
        pairs.push(when(&[(1, SeccompCmpOp::MaskedEq(0xf), kind)])?);
    }
    rules.insert(libc::SYS_socketpair, pairs);
    if sockets == Sockets::Pairs {
        rules.insert(libc::SYS_connect, Vec::new());
    }
    Ok(rules)
}

/// The filter behind a look at the number: calls by x32 end the process.
#[cfg(target_arch = "x86_64")]
fn pinned(program: BpfProgram) -> BpfProgram {
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    // Load the number; go on behind the next instruction if it is lower; end the process.
    let mut pinned = vec![
        instruction(0x20, 0, 0, 0),
        instruction(0x35, 0, 1, X32),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    pinned.extend(program);
    pinned
}

#[cfg(not(target_arch = "x86_64"))]
fn pinned(program: BpfProgram) -> BpfProgram {
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_a_program_that_the_kernel_could_take() {
        for sockets in [Sockets::All, Sockets::Internet, Sockets::Pairs] {
            for namespaces in [true, false] {
                for program in programs(sockets, namespaces).unwrap() {
                    assert!(
                        (2..4096).contains(&program.len()),
                        "{sockets:?}: {}",
                        program.len()
                    );
                }
            }
        }
    }

    #[test]
    fn no_call_is_listed_twice() {
        let mut numbers = REFUSED.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), REFUSED.len());
    }

    #[test]
    fn a_socket_that_could_reach_a_service_by_its_path_needs_a_network_of_its_own() {
        let number = |sockets| rules(sockets).unwrap();
        assert!(
            number(Sockets::Pairs)[&libc::SYS_socket].is_empty(),
            "refused whatever the family is"
        );
        assert!(number(Sockets::Pairs).contains_key(&libc::SYS_connect));
        assert!(!number(Sockets::Internet).contains_key(&libc::SYS_connect));
        assert_eq!(number(Sockets::All)[&libc::SYS_socketpair].len(), 1);
        assert_eq!(number(Sockets::Internet)[&libc::SYS_socketpair].len(), 2);
    }
}
