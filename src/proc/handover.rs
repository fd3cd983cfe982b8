//! How the listener of the proxy comes out of the sandbox. The supervisor inside binds it, in the network that only the call
//! has, and hands the open socket over its control socket to the supervisor outside, and that to the runner, which accepts
//! the connections. So nothing inside forwards anything, and there is no path by which anybody else could connect.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::egress;

/// Comes with the socket. No report begins with it.
const MARK: u8 = b'L';

/// What came first over a control socket.
pub(super) enum First {
    /// The listener.
    Listener(OwnedFd),
    /// The beginning of a report: there is no listener.
    Byte(u8),
    /// Nothing; whoever was there is gone.
    End,
}

/// Where the programs of the call find the proxy.
pub(super) fn listen() -> io::Result<TcpListener> {
    TcpListener::bind(egress::ADDRESS)
}

pub(super) fn send(control: impl AsFd, listener: impl AsFd) -> io::Result<()> {
    let sockets = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !beside.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("the socket does not fit into a message"));
    }
    let bytes = [IoSlice::new(&[MARK])];
    sendmsg(control, &bytes, &mut beside, SendFlags::empty())?;
    Ok(())
}

pub(super) fn receive(control: impl AsFd) -> io::Result<First> {
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(
        control,
        &mut [IoSliceMut::new(&mut byte)],
        &mut beside,
        flags,
    )?;
    if got.bytes == 0 {
        return Ok(First::End);
    }
    let [byte] = byte;
    let socket = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    Ok(match socket {
        Some(socket) if byte == MARK => First::Listener(socket),
        _ => First::Byte(byte),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_listener_arrives_and_a_report_is_told_from_it() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        send(&here, &listener).unwrap();
        here.write_all(b"{").unwrap();
        let First::Listener(socket) = receive(&there).unwrap() else {
            panic!("no listener");
        };
        assert_eq!(TcpListener::from(socket).local_addr().unwrap(), address);
        assert!(matches!(receive(&there).unwrap(), First::Byte(b'{')));
        drop(here);
        assert!(matches!(receive(&there).unwrap(), First::End));
    }
}
