//! Owns the process's own standard input and output as asynchronous streams, and notices when their other ends go.
//! Pipes and sockets are used as they are, without a thread in between; files and terminals go through one.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream to read from.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// A stream to write to.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// The room in the pipes to and from the client, for large messages.
#[cfg(target_os = "linux")]
const PIPE_SIZE: usize = 1024 * 1024;

/// The standard input.
#[cfg(unix)]
pub fn input() -> io::Result<Input> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    let own = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let kind = own.metadata()?.file_type();
    if kind.is_fifo() {
        grow(&own);
        let reopened = reopen(0, false).unwrap_or(own);
        return Ok(Box::new(tokio::net::unix::pipe::Receiver::from_file_unchecked(nonblocking(reopened)?)?));
    }
    if kind.is_socket() {
        return Ok(Box::new(socket(own)?));
    }
    Ok(Box::new(tokio::io::stdin()))
}

/// The standard output.
#[cfg(unix)]
pub fn output() -> io::Result<Output> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    let own = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let kind = own.metadata()?.file_type();
    if kind.is_fifo() {
        grow(&own);
        let reopened = reopen(1, true).unwrap_or(own);
        return Ok(Box::new(tokio::net::unix::pipe::Sender::from_file_unchecked(nonblocking(reopened)?)?));
    }
    if kind.is_socket() {
        return Ok(Box::new(socket(own)?));
    }
    Ok(Box::new(tokio::io::stdout()))
}

/// Waits until nobody writes to the standard input any more, whatever of it is still to be read. Without end where that
/// cannot be told, as for a file.
#[cfg(target_os = "linux")]
pub async fn input_closed() {
    hung_up(io::stdin(), rustix::event::epoll::EventFlags::RDHUP).await;
}

/// Waits until nobody can read the standard output any more. Without end where that cannot be told, as for a file.
#[cfg(target_os = "linux")]
pub async fn output_closed() {
    // Whoever only writes no more to a socket may still read from it.
    hung_up(io::stdout(), rustix::event::epoll::EventFlags::empty()).await;
}

/// Waits for the hangup or the failure of what is at the other end, which the system tells unasked, or for `more`.
#[cfg(target_os = "linux")]
async fn hung_up(own: impl std::os::fd::AsFd, more: rustix::event::epoll::EventFlags) {
    use rustix::event::epoll;
    use tokio::net::unix::pipe::Receiver;
    let watched = || -> io::Result<Receiver> {
        let eye = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&eye, own, epoll::EventData::new_u64(0), more)?;
        // It is no pipe, but like one it can be read from as soon as there is something to be known.
        Receiver::from_file_unchecked(eye.into())
    };
    match watched() {
        Ok(eye) => drop(eye.readable().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(target_os = "linux"))]
pub async fn input_closed() {
    std::future::pending().await
}

#[cfg(not(target_os = "linux"))]
pub async fn output_closed() {
    std::future::pending().await
}

/// Opens a pipe once more, so that its blocking mode can be changed without changing it for whoever shares it.
#[cfg(unix)]
fn reopen(descriptor: u32, write: bool) -> io::Result<std::fs::File> {
    std::fs::OpenOptions::new().read(!write).write(write).open(format!("/proc/self/fd/{descriptor}"))
}

#[cfg(unix)]
fn nonblocking(file: std::fs::File) -> io::Result<std::fs::File> {
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(unix)]
fn socket(file: std::fs::File) -> io::Result<tokio::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(std::os::fd::OwnedFd::from(file));
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}

#[cfg(target_os = "linux")]
fn grow(file: &std::fs::File) {
    // Best effort: a user may have too many large pipes already.
    let _ = rustix::pipe::fcntl_setpipe_size(file, PIPE_SIZE);
}

#[cfg(all(unix, not(target_os = "linux")))]
fn grow(_: &std::fs::File) {}

#[cfg(not(unix))]
pub fn input() -> io::Result<Input> {
    Ok(Box::new(tokio::io::stdin()))
}

#[cfg(not(unix))]
pub fn output() -> io::Result<Output> {
    Ok(Box::new(tokio::io::stdout()))
}
