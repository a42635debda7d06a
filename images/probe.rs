//! The test image's only program: static, standard library only, one sub-command per thing a test wants to see.
//!
//! Resolves names itself (search path and `ndots` of /etc/resolv.conf, A records over UDP), because a statically
//! linked libc cannot load its resolver plug-ins. Under the name `nc` it is the `nc` of the busybox image.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const USAGE: &str = "usage: probe pause | serve PORT [TEXT] | fetch URL | resolve NAME | connect HOST:PORT | env | \
                     sleep SECONDS | exit CODE | memory MIB | nc …";
const NC_USAGE: &str = "usage: nc HOST PORT | nc -l [-k] -p PORT [-e PROGRAM [ARGUMENT...]]";
const IO_TIMEOUT: Duration = Duration::from_secs(5);
const RESOLVER_TRIES: usize = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let called = arguments.first().and_then(|name| Path::new(name).file_name()?.to_str());
    let mut words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    if called == Some("nc") {
        words.insert(0, "nc");
    }
    let outcome = match words.as_slice() {
        ["pause"] => pause(),
        ["serve", port] => serve(port, "hello"),
        ["serve", port, text] => serve(port, text),
        ["fetch", url] => fetch(url),
        ["resolve", name] => resolve(name).map(|address| println!("{address}")),
        ["connect", target] => connect(target).map(|_stream| println!("connected")),
        ["env"] => print_environment(),
        ["sleep", seconds] => number(seconds).map(|seconds| std::thread::sleep(Duration::from_secs(seconds))),
        ["exit", code] => number(code).map(|code| std::process::exit(i32::try_from(code).unwrap_or(1))),
        ["nc", words @ ..] => netcat(words),
        ["memory", mebibytes] => number(mebibytes).and_then(|mebibytes| fill_memory(mebibytes)),
        _ => Err(USAGE.to_owned()),
    };
    if let Err(message) = outcome {
        eprintln!("probe: {message}");
        std::process::exit(1);
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_error| format!("{text:?} is not a number"))
}

fn pause() -> Result<(), String> {
    loop {
        std::thread::park();
    }
}

fn fill_memory(mebibytes: u64) -> Result<(), String> {
    let size = usize::try_from(mebibytes << 20).map_err(|error| error.to_string())?;
    let block = vec![1_u8; size];
    println!("holding {} bytes", block.iter().map(|byte| usize::from(*byte)).sum::<usize>());
    pause()
}

fn print_environment() -> Result<(), String> {
    let mut variables: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    variables.sort();
    println!("{}", variables.join("\n"));
    Ok(())
}

// === HTTP ===

/// Answers every request with the host name, the caller's address and `text`.
fn serve(port: &str, text: &str) -> Result<(), String> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).map_err(|error| format!("port {port}: {error}"))?;
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    println!("serving on {port}");
    for stream in listener.incoming().flatten() {
        let body = format!("{} {} {text}\n", host.trim(), caller(&stream));
        std::thread::spawn(move || answer(stream, &body));
    }
    Ok(())
}

fn caller(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_error| "unknown".to_owned(), |address| address.ip().to_string())
}

fn answer(mut stream: TcpStream, body: &str) {
    let mut request = [0; 4096];
    if stream.set_read_timeout(Some(IO_TIMEOUT)).is_err() || stream.read(&mut request).is_err() {
        return;
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    if let Err(error) = stream.write_all(format!("{head}{body}").as_bytes()) {
        eprintln!("probe: answer: {error}");
    }
}

fn fetch(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("http://").ok_or("only http:// URLs")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let target = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let mut stream = connect(&target)?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&response).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no HTTP answer")?;
    print!("{body}");
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status.starts_with('2') { Ok(()) } else { Err(format!("HTTP status {status}")) }
}

fn connect(target: &str) -> Result<TcpStream, String> {
    let (host, port) = target.rsplit_once(':').ok_or("HOST:PORT wanted")?;
    let address = SocketAddr::new(resolve(host)?.into(), port.parse().map_err(|_error| format!("bad port {port:?}"))?);
    let stream =
        TcpStream::connect_timeout(&address, IO_TIMEOUT).map_err(|error| format!("connect {address}: {error}"))?;
    stream.set_read_timeout(Some(IO_TIMEOUT)).map_err(|error| error.to_string())?;
    Ok(stream)
}

// === nc ===

fn netcat(words: &[&str]) -> Result<(), String> {
    let (mut listens, mut repeats, mut port, mut program) = (false, false, None, &[][..]);
    let mut rest = words;
    while let [option, more @ ..] = rest
        && let Some(letters) = option.strip_prefix('-')
    {
        rest = more;
        for letter in letters.chars() {
            match letter {
                'l' => listens = true,
                'k' => repeats = true,
                'p' => (port, rest) = rest.split_first().map(|(port, more)| (Some(*port), more)).ok_or(NC_USAGE)?,
                // All that follows is the program.
                'e' => program = std::mem::take(&mut rest),
                _ => return Err(format!("nc: -{letter} is unknown. {NC_USAGE}")),
            }
        }
    }
    match (listens, port, rest) {
        (true, Some(port), []) => listen(port, repeats, program),
        (false, None, [host, port]) if program.is_empty() => converse(connect(&format!("{host}:{port}"))?),
        _ => Err(NC_USAGE.to_owned()),
    }
}

/// One connection after the other with `repeats`, else one.
fn listen(port: &str, repeats: bool, program: &[&str]) -> Result<(), String> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).map_err(|error| format!("port {port}: {error}"))?;
    for stream in listener.incoming().flatten() {
        let outcome = match program {
            [] => converse(stream),
            [name, arguments @ ..] => give_to(name, arguments, stream),
        };
        match outcome {
            Err(message) if repeats => eprintln!("nc: {message}"),
            outcome if !repeats => return outcome,
            _ => {}
        }
    }
    Ok(())
}

/// The program talks to the caller in our place.
fn give_to(name: &str, arguments: &[&str], stream: TcpStream) -> Result<(), String> {
    let input: OwnedFd = stream.try_clone().map_err(|error| error.to_string())?.into();
    let output: OwnedFd = stream.into();
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::from(input)).stdout(Stdio::from(output));
    command.status().map(drop).map_err(|error| format!("{name}: {error}"))
}

/// Standard input to the other side, its answer to standard output, until it has no more to say.
fn converse(stream: TcpStream) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    stream.set_read_timeout(None).map_err(failed)?;
    let (mut answers, mut questions) = (stream.try_clone().map_err(failed)?, stream);
    std::thread::spawn(move || {
        // The other side may have closed already: what it said is what counts.
        let _left = std::io::copy(&mut std::io::stdin(), &mut questions);
        let _closed = questions.shutdown(Shutdown::Write);
    });
    std::io::copy(&mut answers, &mut std::io::stdout()).map(drop).map_err(failed)
}

// === names ===

fn resolve(name: &str) -> Result<Ipv4Addr, String> {
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let configuration = std::fs::read_to_string("/etc/resolv.conf").map_err(|error| format!("resolv.conf: {error}"))?;
    let values = |key: &str| -> Vec<String> {
        let lines = configuration.lines().filter_map(|line| line.strip_prefix(key));
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    let dots = values("options").iter().find_map(|option| option.strip_prefix("ndots:")?.parse().ok()).unwrap_or(1);
    let servers = values("nameserver");
    for candidate in candidates(name, &values("search"), dots) {
        for server in servers.iter().cycle().take(servers.len() * RESOLVER_TRIES) {
            match query(server, &candidate) {
                Ok(Some(address)) => return Ok(address),
                Ok(None) => break,
                Err(error) => eprintln!("probe: {server}: {error}"),
            }
        }
    }
    Err(format!("{name}: no such host"))
}

fn candidates(name: &str, search: &[String], dots: usize) -> Vec<String> {
    if let Some(absolute) = name.strip_suffix('.') {
        return vec![absolute.to_owned()];
    }
    let mut names: VecDeque<String> = search.iter().map(|domain| format!("{name}.{domain}")).collect();
    if name.matches('.').count() >= dots {
        names.push_front(name.to_owned());
    } else {
        names.push_back(name.to_owned());
    }
    names.into()
}

fn query(server: &str, name: &str) -> std::io::Result<Option<Ipv4Addr>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut message = vec![0x51, 0x52, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len().min(63)).unwrap_or(63));
        message.extend(label.bytes().take(63));
    }
    message.extend([0, 0, 1, 0, 1]);
    socket.send_to(&message, (server, 53))?;
    let mut answer = [0; 1500];
    let length = socket.recv(&mut answer)?;
    Ok(first_address(&answer[..length], message.len()))
}

/// The first A record after the question section, which ends at `offset`.
fn first_address(message: &[u8], mut offset: usize) -> Option<Ipv4Addr> {
    let answers = u16::from_be_bytes([*message.get(6)?, *message.get(7)?]);
    for _ in 0..answers {
        while *message.get(offset)? != 0 && *message.get(offset)? < 0xc0 {
            offset += 1 + usize::from(message[offset]);
        }
        offset += if *message.get(offset)? == 0 { 1 } else { 2 };
        let kind = u16::from_be_bytes([*message.get(offset)?, *message.get(offset + 1)?]);
        let length = usize::from(u16::from_be_bytes([*message.get(offset + 8)?, *message.get(offset + 9)?]));
        let data = message.get(offset + 10..offset + 10 + length)?;
        if let (1, [a, b, c, d]) = (kind, data) {
            return Some(Ipv4Addr::new(*a, *b, *c, *d));
        }
        offset += 10 + length;
    }
    None
}
