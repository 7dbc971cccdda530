//! Connections by SSH: which host, by which way, with which keys.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use russh::client::Config;
use russh::client::{self, AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{
    Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate,
    load_public_key,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

use super::config::{self, Asker, HostConfig};
use super::known::{KnownKeys, Verdict};
use super::metered::{Meter, Metered};
use crate::remote::CONNECT_TIMEOUT;
use crate::{Cause, SftpLocation};

/// Servers close a connection after this many keys that they do not accept.
const MAX_KEYS: usize = 6;

/// How long it takes to notice that a connection has ended.
const FAREWELL: Duration = Duration::from_millis(200);

/// The most hosts on the way.
const MAX_HOPS: usize = 8;

/// The keys of which ssh tries each that exists.
const DEFAULT_KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

/// A two-way stream of bytes.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A host, and all that is needed to log in there.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The host as the user named it.
    name: String,
    address: String,
    port: u16,
    user: String,
    known: KnownKeys,
    keys: Vec<PathBuf>,
    /// Whether keys of the agent count that `keys` does not name.
    any_of_agent: bool,
    agent: Option<PathBuf>,
    proxy_command: Option<String>,
    connect_timeout: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum SshError {
    /// A later try may succeed.
    #[error("cannot connect to {host}")]
    Connect { host: String, source: io::Error },
    #[error("the connection to {host} failed")]
    Ssh { host: String, source: russh::Error },
    #[error(
        "the key of {host} is not known: {fingerprint}; compare it with the host's own, and accept it \
         by running `{command}` once"
    )]
    UnknownHost { host: String, fingerprint: String, command: String },
    #[error(
        "the key of {host} is {fingerprint}, and another is in {files}: either the host has a new key, or \
         somebody pretends to be it; if it is new, run `ssh-keygen -R {host}` and `{command}`"
    )]
    OtherKey { host: String, fingerprint: String, files: String, command: String },
    #[error("the key of {host}, {fingerprint}, is revoked in {files}")]
    RevokedKey { host: String, fingerprint: String, files: String },
    #[error("{user}@{host} accepts none of the keys: {tried}")]
    Denied { user: String, host: String, tried: String },
}

impl SshError {
    /// Whether a later try may succeed: nobody refused anything.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Connect { .. } => true,
            Self::Ssh { source, .. } => !matches!(
                source,
                russh::Error::NoCommonAlgo { .. } | russh::Error::NotAuthenticated
            ),
            _ => false,
        }
    }
}

/// The hosts on the way to `location`, the last of which has the repository.
pub(super) fn way_to(location: &SftpLocation, files: &[PathBuf]) -> Result<Vec<Target>, Cause> {
    let home = std::env::home_dir().ok_or("there is no home directory")?;
    let here = Here { files, home, user: local_user()? };
    here.way(location.host(), location.user(), location.port(), MAX_HOPS)
}

/// The files that ssh reads unless another one is named.
pub(super) fn default_files() -> Vec<PathBuf> {
    let own = std::env::home_dir().map(|home| home.join(".ssh/config"));
    own.into_iter().chain([PathBuf::from("/etc/ssh/ssh_config")]).collect()
}

/// The name of the user who runs this.
fn local_user() -> Result<String, Cause> {
    for variable in ["USER", "LOGNAME"] {
        if let Ok(user) = std::env::var(variable)
            && !user.is_empty()
        {
            return Ok(user);
        }
    }
    let id = rustix::process::getuid().as_raw().to_string();
    let users = config::read_text(Path::new("/etc/passwd"))?;
    let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.get(2) == Some(&id.as_str()));
    let user = found.and_then(|fields| fields.first().map(|user| (*user).to_owned()));
    user.ok_or_else(|| "the user has no name; name one in the location".into())
}

/// What this machine and its user add to a location.
struct Here<'a> {
    files: &'a [PathBuf],
    home: PathBuf,
    user: String,
}

impl Here<'_> {
    fn way(
        &self,
        host: &str,
        user: Option<&str>,
        port: Option<u16>,
        most: usize,
    ) -> Result<Vec<Target>, Cause> {
        let asker = Asker {
            host: host.to_owned(),
            user: user.map(str::to_owned),
            local_user: self.user.clone(),
            home: self.home.clone(),
        };
        let found = config::read(self.files, &asker)?;
        let jumps = found.proxy_jump.clone().filter(|jumps| jumps != "none");
        let mut way = Vec::new();
        for (at, jump) in jumps.iter().flat_map(|jumps| jumps.split(',')).enumerate() {
            let (user, host, port) = parse_jump(jump)?;
            if most == 0 {
                return Err("ProxyJump leads over too many hosts".into());
            }
            // The first host on the way may have a way of its own; the others are reached from there.
            let mut hops = self.way(host, user, port, most - 1)?;
            way.extend(if at == 0 { hops } else { hops.split_off(hops.len() - 1) });
        }
        way.push(self.target(asker, port, found)?);
        Ok(way)
    }

    fn target(&self, asker: Asker, port: Option<u16>, found: HostConfig) -> Result<Target, Cause> {
        let port = port.or(found.port).unwrap_or(22);
        let user = asker.user.or(found.user).unwrap_or_else(|| self.user.clone());
        let address = found.host_name.map_or_else(
            || asker.host.clone(),
            |name| name.replace("%h", &asker.host).replace("%%", "%"),
        );
        let expand = |text: &String| self.expand(text, &asker.host, &address, &user, port);
        let ssh = self.home.join(".ssh");
        let known = match found.user_known_hosts.as_slice() {
            [] => vec![ssh.join("known_hosts"), ssh.join("known_hosts2")],
            files => files.iter().map(expand).collect(),
        };
        let global = match found.global_known_hosts.as_slice() {
            [] => vec!["/etc/ssh/ssh_known_hosts".into(), "/etc/ssh/ssh_known_hosts2".into()],
            files => files.iter().map(expand).collect(),
        };
        let files: Vec<PathBuf> = known.into_iter().chain(global).collect();
        // An alias is looked up as it is, whatever the port.
        let known = match &found.host_key_alias {
            Some(alias) => KnownKeys::read(files, alias, 22)?,
            None => KnownKeys::read(files, &address, port)?,
        };
        let keys: Vec<PathBuf> = match found.identity_files.as_slice() {
            [] => DEFAULT_KEYS.iter().map(|name| ssh.join(name)).collect(),
            files => files.iter().filter(|file| *file != "none").map(expand).collect(),
        };
        let agent = match found.identity_agent.as_deref() {
            Some("none") => None,
            None | Some("SSH_AUTH_SOCK") => std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from),
            Some(variable) if variable.starts_with('$') => {
                std::env::var_os(variable[1..].trim_matches(['{', '}'])).map(PathBuf::from)
            }
            Some(path) => Some(expand(&path.to_owned())),
        };
        let proxy_command = found.proxy_command.filter(|command| command != "none");
        let proxy_command = proxy_command.map(|command| {
            let port = port.to_string();
            replace(&command, &[('h', &address), ('n', &asker.host), ('p', &port), ('r', &user)])
        });
        Ok(Target {
            name: asker.host.clone(),
            known,
            keys,
            any_of_agent: !found.identities_only.unwrap_or(false),
            agent: agent.filter(|path| !path.as_os_str().is_empty()),
            proxy_command,
            connect_timeout: found.connect_timeout.map_or(CONNECT_TIMEOUT, Duration::from_secs),
            address,
            port,
            user,
        })
    }

    /// A path in the configuration, with what stands for other things in it.
    fn expand(&self, text: &str, name: &str, address: &str, user: &str, port: u16) -> PathBuf {
        let (home, port) = (self.home.to_string_lossy(), port.to_string());
        let with = [
            ('h', address),
            ('n', name),
            ('p', &port),
            ('r', user),
            ('u', &self.user),
            ('d', &*home),
        ];
        match text.strip_prefix("~/") {
            Some(below) => self.home.join(replace(below, &with)),
            None => PathBuf::from(replace(text, &with)),
        }
    }
}

/// `text`, with `%x` replaced for each pair of x and another text, and `%%` by a percent sign.
fn replace(text: &str, with: &[(char, &str)]) -> String {
    let mut replaced = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '%' {
            replaced.push(next);
            continue;
        }
        match rest.next() {
            Some('%') => replaced.push('%'),
            Some(token) => match with.iter().find(|(of, _)| *of == token) {
                Some((_, text)) => replaced.push_str(text),
                None => replaced.extend(['%', token]),
            },
            None => replaced.push('%'),
        }
    }
    replaced
}

/// `USER@HOST:PORT` of a `ProxyJump`.
fn parse_jump(text: &str) -> Result<(Option<&str>, &str, Option<u16>), Cause> {
    let bad = || format!("'{text}' is no host of a ProxyJump");
    let text = text.trim();
    let text = text.strip_prefix("ssh://").unwrap_or(text);
    let (user, rest) =
        text.rsplit_once('@').map_or((None, text), |(user, rest)| (Some(user), rest));
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(str::parse).transpose().map_err(|_| bad())?;
    if host.is_empty() || user == Some("") {
        return Err(bad().into());
    }
    Ok((user, host, port))
}

/// A connection by SSH, and those that it goes through.
pub(super) struct Connected {
    pub(super) handle: Handle<Verifier>,
    _through: Vec<Handle<Verifier>>,
}

/// Connects to the last host of `way` through the others, and logs in.
pub(super) async fn connect(way: &[Target], meter: Meter) -> Result<Connected, SshError> {
    let (first, _) = way.split_first().expect("a way has a host");
    let mut stream: Box<dyn Stream> = Box::new(Metered::new(first.dial().await?, meter));
    let mut through = Vec::new();
    for (target, next) in way.iter().zip(&way[1..]) {
        let handle = target.log_in(stream).await?;
        let to = handle
            .channel_open_direct_tcpip(&next.address, u32::from(next.port), "127.0.0.1", 0)
            .await;
        stream = Box::new(to.map_err(|source| target.failed(source))?.into_stream());
        through.push(handle);
    }
    let last = way.last().expect("a way has a host");
    Ok(Connected { handle: last.log_in(stream).await?, _through: through })
}

impl Target {
    /// The bytes to and from the host.
    async fn dial(&self) -> Result<Box<dyn Stream>, SshError> {
        let failed = |source| SshError::Connect { host: self.shown(), source };
        if let Some(command) = &self.proxy_command {
            let stream = ProcessStream::start("sh", &["-c", command]).map_err(failed)?;
            return Ok(Box::new(stream));
        }
        let connecting = TcpStream::connect((self.address.as_str(), self.port));
        let stream = match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(stream) => stream.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Box::new(stream))
    }

    async fn log_in(&self, stream: impl Stream + 'static) -> Result<Handle<Verifier>, SshError> {
        let mut config = Config { nodelay: true, window_size: 8 << 20, ..Config::default() };
        let order = preferred(&config.preferred.key, self.known.accepted());
        config.preferred.key = order.into();
        let verifier = Verifier { target: self.clone() };
        let connecting = client::connect_stream(Arc::new(config), stream, verifier);
        let connected = tokio::time::timeout(3 * self.connect_timeout, connecting).await;
        let mut handle = match connected {
            Ok(connected) => connected.map_err(|error| match error {
                VerifyError::Ssh(source) => self.failed(source),
                VerifyError::Key(error) => error,
            })?,
            Err(_) => {
                let source = io::ErrorKind::TimedOut.into();
                return Err(SshError::Connect { host: self.shown(), source });
            }
        };
        self.authenticate(&mut handle).await?;
        Ok(handle)
    }

    /// Offers keys until one is accepted: those of the agent, then those in files.
    async fn authenticate(&self, handle: &mut Handle<Verifier>) -> Result<(), SshError> {
        let hash = handle.best_supported_rsa_hash().await.map_err(|source| self.failed(source))?;
        // A server that says nothing of them knows these.
        let hash = hash.unwrap_or(Some(HashAlg::Sha512));
        let mut tried = Tried::default();
        self.authenticate_by_agent(handle, hash, &mut tried).await?;
        if tried.is_accepted {
            return Ok(());
        }
        for file in &self.keys {
            if tried.offered.len() >= MAX_KEYS {
                break;
            }
            let Some(key) = tried.read(file) else { continue };
            if tried.has_offered(key.public_key()) {
                continue;
            }
            tried.note(key.public_key(), file.display());
            let hash = if matches!(key.algorithm(), Algorithm::Rsa { .. }) { hash } else { None };
            let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
            let answer = handle.authenticate_publickey(&self.user, key).await;
            if matches!(answer.map_err(|source| self.failed(source))?, AuthResult::Success) {
                return Ok(());
            }
        }
        // A connection that broke accepts no key, either. One that the server ends by a message was refused.
        if let Ok(Err(_)) = tokio::time::timeout(FAREWELL, &mut *handle).await {
            return Err(self.failed(russh::Error::Disconnect));
        }
        let (user, host) = (self.user.clone(), self.shown());
        Err(SshError::Denied { user, host, tried: tried.to_string() })
    }

    async fn authenticate_by_agent(
        &self,
        handle: &mut Handle<Verifier>,
        hash: Option<HashAlg>,
        tried: &mut Tried,
    ) -> Result<(), SshError> {
        let Some(socket) = &self.agent else {
            tried.notes.push("no agent is set".into());
            return Ok(());
        };
        let mut agent = match UnixStream::connect(socket).await {
            Ok(stream) => AgentClient::connect(stream),
            Err(error) => {
                tried.notes.push(format!("the agent at {} : {error}", socket.display()));
                return Ok(());
            }
        };
        let identities = match agent.request_identities().await {
            Ok(identities) => identities,
            Err(error) => {
                tried.notes.push(format!("the agent at {} : {error}", socket.display()));
                return Ok(());
            }
        };
        let named: Vec<PublicKey> = self.keys.iter().filter_map(|file| public_part(file)).collect();
        let is_named =
            |key: &PublicKey| named.iter().any(|named| named.key_data() == key.key_data());
        let keys = identities.into_iter().filter_map(|identity| match identity {
            AgentIdentity::PublicKey { key, .. } => Some(key),
            AgentIdentity::Certificate { .. } => None,
        });
        let (mut keys, others): (Vec<_>, Vec<_>) = keys.partition(is_named);
        if self.any_of_agent {
            keys.extend(others);
        }
        for key in keys.into_iter().take(MAX_KEYS) {
            tried.note(&key, "the agent");
            let hash = if matches!(key.algorithm(), Algorithm::Rsa { .. }) { hash } else { None };
            let answer =
                handle.authenticate_publickey_with(&self.user, key, hash, &mut agent).await;
            match answer {
                Ok(AuthResult::Success) => {
                    tried.is_accepted = true;
                    return Ok(());
                }
                Ok(_) => {}
                // The agent may hold a key that it does not use, and the server may have gone.
                Err(_) if handle.is_closed() => return Err(self.failed(russh::Error::Disconnect)),
                Err(error) => tried.notes.push(format!("the agent did not sign: {error}")),
            }
        }
        Ok(())
    }

    fn failed(&self, source: russh::Error) -> SshError {
        SshError::Ssh { host: self.shown(), source }
    }

    fn shown(&self) -> String {
        match self.port {
            22 => self.name.clone(),
            port => format!("{} port {port}", self.name),
        }
    }

    /// The command that shows the key of the host and asks whether to accept it.
    fn accepting(&self) -> String {
        match self.port {
            22 => format!("ssh {}@{}", self.user, self.name),
            port => format!("ssh -p {port} {}@{}", self.user, self.name),
        }
    }
}

/// Algorithms of host keys, those first for which a key is known: a host has several.
fn preferred(all: &[Algorithm], known: &[PublicKey]) -> Vec<Algorithm> {
    let is_rsa = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Rsa { .. });
    let is_known = |algorithm: &&Algorithm| {
        let same = |key: &PublicKey| {
            let known = key.algorithm();
            known == **algorithm || is_rsa(&known) && is_rsa(algorithm)
        };
        known.iter().any(same)
    };
    let (mut first, others): (Vec<_>, Vec<_>) = all.iter().partition(is_known);
    first.extend(others);
    first.into_iter().cloned().collect()
}

/// The public part of a key, which lies beside it.
fn public_part(file: &Path) -> Option<PublicKey> {
    let mut name = file.as_os_str().to_owned();
    if file.extension().is_none_or(|extension| extension != "pub") {
        name.push(".pub");
    }
    load_public_key(name).ok()
}

/// The keys that were offered, for the error.
#[derive(Default)]
struct Tried {
    offered: Vec<PublicKey>,
    notes: Vec<String>,
    is_accepted: bool,
}

impl Tried {
    fn has_offered(&self, key: &PublicKey) -> bool {
        self.offered.iter().any(|offered| offered.key_data() == key.key_data())
    }

    fn note(&mut self, key: &PublicKey, from: impl fmt::Display) {
        self.notes.push(format!("{} of {from}", key.fingerprint(HashAlg::Sha256)));
        self.offered.push(key.clone());
    }

    /// The key in a file, unless there is none, or it cannot be used.
    fn read(&mut self, file: &Path) -> Option<PrivateKey> {
        let text = match config::read_text(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.notes.push(format!("{}: {error}", file.display()));
                return None;
            }
        };
        match russh::keys::decode_secret_key(&text, None) {
            Ok(key) => Some(key),
            Err(russh::keys::Error::KeyIsEncrypted) => {
                let file = file.display();
                self.notes.push(format!("{file} has a passphrase: run `ssh-add {file}`"));
                None
            }
            Err(error) => {
                self.notes.push(format!("{}: {error}", file.display()));
                None
            }
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.notes.is_empty() {
            true => f.write_str("there are none"),
            false => f.write_str(&self.notes.join("; ")),
        }
    }
}

/// Accepts a host by its key.
pub(super) struct Verifier {
    target: Target,
}

/// Why a connection ended before it was authenticated.
#[derive(Debug)]
pub(super) enum VerifyError {
    Ssh(russh::Error),
    Key(SshError),
}

impl From<russh::Error> for VerifyError {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl client::Handler for Verifier {
    type Error = VerifyError;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, VerifyError> {
        // No certificates are asked for.
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else { return Ok(false) };
        let target = &self.target;
        let fingerprint = format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256));
        let (host, command) = (target.known.host.clone(), target.accepting());
        let files = target.known.files.iter().map(|file| file.display().to_string());
        let files = files.collect::<Vec<_>>().join(", ");
        Err(VerifyError::Key(match target.known.judge(key) {
            Verdict::Accepted => return Ok(true),
            Verdict::Unknown => SshError::UnknownHost { host, fingerprint, command },
            Verdict::Other => SshError::OtherKey { host, fingerprint, files, command },
            Verdict::Revoked => SshError::RevokedKey { host, fingerprint, files },
        }))
    }
}

/// Standard input and output of a program, as one stream. The program ends when this is dropped.
pub(super) struct ProcessStream {
    child: Child,
}

impl ProcessStream {
    pub(super) fn start(program: &str, arguments: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // A signal from the terminal is for this process, which ends the other.
        command.process_group(0);
        Ok(Self { child: command.spawn()? })
    }
}

mod process_stream {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::ProcessStream;

    impl AsyncRead for ProcessStream {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let output = self.get_mut().child.stdout.as_mut().expect("it is piped");
            Pin::new(output).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for ProcessStream {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            match self.get_mut().child.stdin.as_mut() {
                Some(input) => Pin::new(input).poll_write(context, bytes),
                None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.get_mut().child.stdin.as_mut() {
                Some(input) => Pin::new(input).poll_flush(context),
                None => Poll::Ready(Ok(())),
            }
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            // The program sees the end of its input.
            drop(self.get_mut().child.stdin.take());
            Poll::Ready(Ok(()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_jump_are_read_or_refused() {
        for (text, expected) in [
            ("host", (None, "host", None)),
            ("me@host:2222", (Some("me"), "host", Some(2222))),
            ("ssh://me@[::1]:22", (Some("me"), "::1", Some(22))),
        ] {
            assert_eq!(parse_jump(text).unwrap(), expected);
        }
        for bad in ["", "@host", "host:x", "host:70000"] {
            assert!(parse_jump(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tokens_are_replaced_and_others_stay() {
        assert_eq!(replace("%h:%p %% %x %", &[('h', "a"), ('p', "1")]), "a:1 % %x %");
    }
}
