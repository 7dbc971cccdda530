//! The handshake, until a client has chosen an export: greeting, options, TLS.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::export::{Offered, Use};
use crate::finder::{Found, Upstream};
use crate::limits::{MAX_OPTION, MAX_OPTIONS, MAX_STRING, OPTIONS_EACH};
use crate::options::{self, Bad, ContextQuery, InfoQuery};
use crate::places::Place;
use crate::relay::{Relay, Terms};
use crate::server::Shared;
use crate::stream::Stream;
use crate::wire::{
    GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionHeader, answer, greeting, info, option,
};
use crate::{NbdError, Tls, TlsMode};

/// The only metadata context, and its number.
const ALLOCATION: &str = "base:allocation";
const ALLOCATION_NAMESPACE: &str = "base:";
pub(crate) const ALLOCATION_ID: u32 = 1;

/// Why nothing was found if the finder panicked.
const PANICKED: &str = "the search for the export failed";

/// Answers are written once this many bytes are pending, even if more follow.
const PIECE: usize = 32 << 10;

/// How long a search pauses before it looks again.
const SEARCH_PAUSE: Duration = Duration::from_millis(250);

/// What serves a client.
pub(crate) enum Chosen {
    /// This server.
    Here(Agreed),
    /// Another server.
    There { relay: Relay, is_encrypted: bool },
}

/// The result of the handshake.
pub(crate) struct Agreed {
    pub(crate) export: Arc<Offered>,
    pub(crate) used: Use,
    pub(crate) is_encrypted: bool,
    /// Whether replies are structured.
    pub(crate) is_structured: bool,
    /// Whether the client may request block status.
    pub(crate) has_allocation: bool,
}

/// Negotiates until the client has chosen an export and has a place; `None` if the client ends the
/// negotiation.
pub(crate) async fn handshake(
    mut stream: Box<dyn Stream>,
    place: &mut Place,
    shared: &Shared,
) -> Result<Option<(Box<dyn Stream>, Chosen)>, NbdError> {
    let omits_zeroes = greet(&mut stream).await?;
    let mut haggling = Haggling { omits_zeroes, ..Haggling::new(shared) };
    let most_options = most_options(shared.exports.all().len());
    for _ in 0..most_options {
        let header = read_header(&mut stream).await?;
        if header.len > MAX_OPTION {
            return refuse_long_option(&mut stream, header).await;
        }
        let mut data = vec![0; header.len as usize];
        read(&mut stream, &mut data).await?;
        let mut answers = Answers { option: header.option, bytes: Vec::new() };
        let next = match haggling.pass_on(header.option, &data, &mut answers).await? {
            Some(next) => next,
            None => haggling.answer(header.option, &data, &mut answers)?,
        };
        if matches!(next, Next::Serve(_)) {
            // it gets the confirmation when it is served
            place.take(&shared.connections).await;
        }
        write(&mut stream, &answers.bytes).await?;
        match next {
            Next::Option => {}
            Next::List => list(&mut stream, shared).await?,
            Next::Tls => {
                stream = haggling.encrypt(stream).await?;
                haggling = Haggling { is_encrypted: true, omits_zeroes, ..Haggling::new(shared) };
            }
            Next::Serve(chosen) => return Ok(Some((stream, *chosen))),
            Next::End => {
                stream.shutdown().await.map_err(NbdError::Io)?;
                return Ok(None);
            }
        }
    }
    Err(NbdError::Malformed {
        what: "the handshake",
        found: format!("more than {most_options} options"),
        expected: "the choice of an export",
    })
}

/// The maximum number of options that a client may send if there are this many exports.
fn most_options(exports: usize) -> u32 {
    let exports = u32::try_from(exports).unwrap_or(u32::MAX);
    exports.saturating_mul(OPTIONS_EACH).saturating_add(MAX_OPTIONS)
}

/// Sends the greeting and reads the client's flags; true if the client wants no zeroes after its export.
async fn greet(stream: &mut Box<dyn Stream>) -> Result<bool, NbdError> {
    let flags = greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES;
    let mut bytes = Vec::with_capacity(18);
    bytes.extend(GREETING_MAGIC.to_be_bytes());
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    write(stream, &bytes).await?;
    let mut bytes = [0; 4];
    read(stream, &mut bytes).await?;
    let client = u32::from_be_bytes(bytes);
    if client & !u32::from(flags) != 0 || client & u32::from(greeting::FIXED_NEWSTYLE) == 0 {
        return Err(NbdError::Malformed {
            what: "the client's flags",
            found: format!("{client:#x}"),
            expected: "fixed newstyle, and no flag that was not offered",
        });
    }
    Ok(client & u32::from(greeting::NO_ZEROES) != 0)
}

async fn read_header(stream: &mut Box<dyn Stream>) -> Result<OptionHeader, NbdError> {
    let mut bytes = [0; OptionHeader::LEN];
    read(stream, &mut bytes).await?;
    OptionHeader::decode(&bytes).ok_or_else(|| NbdError::Malformed {
        what: "the head of an option",
        found: format!("{:02x?}", &bytes[..8]),
        expected: "the bytes IHAVEOPT",
    })
}

/// Refuses an option that is too long, and ends the connection: the bytes to skip have no bound.
async fn refuse_long_option<T>(
    stream: &mut Box<dyn Stream>,
    header: OptionHeader,
) -> Result<T, NbdError> {
    if header.option != option::EXPORT_NAME {
        let mut answers = Answers { option: header.option, bytes: Vec::new() };
        answers.error(answer::ERR_TOO_BIG, "an option of more than 65,536 bytes");
        write(stream, &answers.bytes).await?;
        stream.shutdown().await.map_err(NbdError::Io)?;
    }
    Err(NbdError::Malformed {
        what: "the length of an option",
        found: format!("{} bytes", header.len),
        expected: "at most 65,536",
    })
}

/// Lists all exports, in pieces.
async fn list(stream: &mut Box<dyn Stream>, shared: &Shared) -> Result<(), NbdError> {
    let mut answers = Answers { option: option::LIST, bytes: Vec::new() };
    let exports = shared.exports.all();
    let names = match &shared.finder {
        None => Vec::new(),
        Some(finder) => {
            let finder = Arc::clone(finder);
            match spawn_blocking(move || finder.names())
                .await
                .unwrap_or_else(|_| Err(PANICKED.into()))
            {
                Ok(names) => names,
                Err(why) => {
                    answers.error(answer::ERR_UNKNOWN, &why);
                    return write(stream, &answers.bytes).await;
                }
            }
        }
    };
    // a client may take its time: nothing is kept for it that the server does not have anyway
    let elsewhere = {
        let known: BTreeSet<&str> = match names.is_empty() {
            true => BTreeSet::new(),
            false => exports.iter().map(|export| &*export.name).collect(),
        };
        let is_new = |name: &String| !known.contains(name.as_str());
        names.into_iter().filter(is_new).collect::<Vec<String>>()
    };
    let here = exports.iter().map(|export| (&*export.name, &*export.description));
    for (name, description) in here.chain(elsewhere.iter().map(|name| (&**name, ""))) {
        let len = (name.len() as u32).to_be_bytes();
        answers.push(answer::SERVER, &[&len, name.as_bytes(), description.as_bytes()]);
        if answers.bytes.len() >= PIECE {
            write(stream, &answers.bytes).await?;
            answers.bytes.clear();
        }
    }
    answers.ack();
    write(stream, &answers.bytes).await
}

/// How the handshake continues after an option.
enum Next {
    Option,
    List,
    Tls,
    Serve(Box<Chosen>),
    End,
}

/// The state of the option negotiation.
struct Haggling<'a> {
    shared: &'a Shared,
    omits_zeroes: bool,
    is_encrypted: bool,
    is_structured: bool,
    /// The export for which `base:allocation` was selected.
    allocation_of: Option<Arc<Offered>>,
    /// Whether another server passes the client's options on: then they are not passed on again.
    is_relayed: bool,
    /// The connection to the server that has the export which the client named last.
    relay: Option<Relay>,
}

impl<'a> Haggling<'a> {
    fn new(shared: &'a Shared) -> Haggling<'a> {
        Haggling {
            shared,
            omits_zeroes: false,
            is_encrypted: false,
            is_structured: false,
            allocation_of: None,
            is_relayed: false,
            relay: None,
        }
    }

    /// If another server has the export that an option names, passes the option on, and answers as that one
    /// does. None if the option is to be answered here.
    async fn pass_on(
        &mut self,
        option: u32,
        data: &[u8],
        answers: &mut Answers,
    ) -> Result<Option<Next>, NbdError> {
        let Some(finder) = self.shared.finder.clone() else { return Ok(None) };
        if self.must_encrypt() || self.shared.is_ending() {
            return Ok(None);
        }
        if option == option::RELAYED && data.is_empty() {
            self.is_relayed = true;
            answers.ack();
            return Ok(Some(Next::Option));
        }
        let Some(name) = options::named(option, data) else { return Ok(None) };
        let begun = Instant::now();
        loop {
            let (found, of) = (Arc::clone(&finder), name.to_owned());
            let found = spawn_blocking(move || found.find(&of)).await;
            let why = match found.unwrap_or_else(|_| Found::Refused(PANICKED.into())) {
                Found::Here => return Ok(None),
                Found::Refused(why) => return self.refuse(option, why, answers).map(Some),
                Found::There(upstream) if self.is_relayed => {
                    // the other server finds it there
                    let why = format!("the gateway at {} has it", upstream.place);
                    return self.refuse(option, why, answers).map(Some);
                }
                Found::NotNow(why) => why,
                Found::There(upstream) => {
                    let place = upstream.place.clone();
                    match self.try_there(upstream, option, name, data, answers).await {
                        Ok(Some(next)) => return Ok(Some(next)),
                        Ok(None) => format!("the gateway at {place} does not have it"),
                        Err(error) => format!("the gateway at {place} cannot be reached: {error}"),
                    }
                }
            };
            if begun.elapsed() > self.shared.limits.search {
                return self.refuse(option, why, answers).map(Some);
            }
            sleep(SEARCH_PAUSE).await;
        }
    }

    fn refuse(&self, option: u32, why: String, answers: &mut Answers) -> Result<Next, NbdError> {
        if option == option::EXPORT_NAME {
            return Err(NbdError::Refused { why });
        }
        answers.error(answer::ERR_UNKNOWN, &why);
        Ok(Next::Option)
    }

    /// Passes an option on to `upstream`. None if that server does not have the export.
    async fn try_there(
        &mut self,
        upstream: Upstream,
        option: u32,
        name: &str,
        data: &[u8],
        answers: &mut Answers,
    ) -> io::Result<Option<Next>> {
        let Self { omits_zeroes, is_structured, is_encrypted, .. } = *self;
        let terms = Terms { omits_zeroes, is_structured };
        let earlier = self.relay.take().filter(|relay| relay.fits(&upstream.place, name, terms));
        let mut relay = match earlier {
            Some(relay) => relay,
            None => Relay::connect(upstream, name, terms, self.upstream_tls()).await?,
        };
        if option == option::EXPORT_NAME {
            relay.choose_unanswered(data).await?;
            return Ok(Some(Next::Serve(Box::new(Chosen::There { relay, is_encrypted }))));
        }
        let passed = relay.pass(option, data).await?;
        if passed.is_gone() {
            return Ok(None);
        }
        answers.bytes = passed.bytes;
        if option == option::GO && passed.last == answer::ACK {
            return Ok(Some(Next::Serve(Box::new(Chosen::There { relay, is_encrypted }))));
        }
        self.relay = Some(relay);
        Ok(Some(Next::Option))
    }

    /// Servers that require TLS of their clients use it among themselves.
    fn upstream_tls(&self) -> Option<&Tls> {
        self.shared.tls.as_ref().filter(|tls| tls.mode == TlsMode::Required)
    }

    fn answer(
        &mut self,
        option: u32,
        data: &[u8],
        answers: &mut Answers,
    ) -> Result<Next, NbdError> {
        let has_data = !data.is_empty();
        match option {
            option::EXPORT_NAME => return self.choose_unanswered(data, answers),
            option::ABORT => {
                answers.ack();
                return Ok(Next::End);
            }
            _ if self.shared.is_ending() => {
                answers.error(answer::ERR_SHUTDOWN, "the server is shutting down");
            }
            option::STARTTLS if has_data => answers.no_data_expected(),
            option::STARTTLS => return Ok(self.start_tls(answers)),
            _ if self.must_encrypt() => {
                answers.error(answer::ERR_TLS_REQD, "this server asks for TLS first");
            }
            option::LIST | option::STRUCTURED_REPLY if has_data => answers.no_data_expected(),
            option::LIST => return Ok(Next::List),
            option::STRUCTURED_REPLY => {
                self.is_structured = true;
                answers.ack();
            }
            option::INFO => drop(self.inform(data, answers)),
            option::GO => {
                if let Some(export) = self.inform(data, answers) {
                    return Ok(self.serve(export));
                }
            }
            option::LIST_META_CONTEXT => self.list_contexts(data, answers),
            option::SET_META_CONTEXT => self.set_contexts(data, answers),
            _ => answers.error(answer::ERR_UNSUP, "this server does not know the option"),
        }
        Ok(Next::Option)
    }

    fn must_encrypt(&self) -> bool {
        let mode = self.shared.tls.as_ref().map(|tls| tls.mode);
        mode == Some(TlsMode::Required) && !self.is_encrypted
    }

    /// Handles the old option for an export, which can only be refused by closing the connection.
    fn choose_unanswered(&self, name: &[u8], answers: &mut Answers) -> Result<Next, NbdError> {
        let refused = |why: String| Err(NbdError::Refused { why });
        if self.must_encrypt() {
            return refused("a client requested an export without TLS".into());
        }
        if self.shared.is_ending() {
            return refused("a client requested an export while the server shut down".into());
        }
        let Some(export) = options::string(name).ok().and_then(|name| self.find(name)) else {
            let name = String::from_utf8_lossy(&name[..name.len().min(MAX_STRING)]);
            return refused(format!("a client requested export {name:?}, which does not exist"));
        };
        answers.bytes.extend(export.device.size().to_be_bytes());
        answers.bytes.extend(export.flags(self.is_structured).to_be_bytes());
        if !self.omits_zeroes {
            answers.bytes.extend([0; 124]);
        }
        Ok(self.serve(export))
    }

    fn serve(&self, export: Arc<Offered>) -> Next {
        Next::Serve(Box::new(Chosen::Here(self.agree(export))))
    }

    fn find(&self, name: &str) -> Option<Arc<Offered>> {
        self.shared.exports.find(name)
    }

    fn agree(&self, export: Arc<Offered>) -> Agreed {
        let selected = self.allocation_of.as_ref();
        Agreed {
            has_allocation: selected.is_some_and(|selected| Arc::ptr_eq(selected, &export)),
            used: export.used(),
            export,
            is_encrypted: self.is_encrypted,
            is_structured: self.is_structured,
        }
    }

    fn start_tls(&self, answers: &mut Answers) -> Next {
        if self.is_encrypted {
            answers.error(answer::ERR_INVALID, "TLS is on already");
            return Next::Option;
        }
        if self.shared.tls.is_none() {
            answers.error(answer::ERR_POLICY, "this server has no TLS");
            return Next::Option;
        }
        answers.ack();
        Next::Tls
    }

    async fn encrypt(&self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, NbdError> {
        let tls = self.shared.tls.as_ref().expect("asked for before");
        Ok(Box::new(tls.acceptor.accept(stream).await.map_err(NbdError::Tls)?))
    }

    /// Describes the export that the client names; `None` if that is an error.
    fn inform(&self, data: &[u8], answers: &mut Answers) -> Option<Arc<Offered>> {
        let query = InfoQuery::decode(data).map_err(|bad| answers.bad(bad)).ok()?;
        let Some(export) = self.find(query.name) else {
            answers.error(answer::ERR_UNKNOWN, "there is no such export");
            return None;
        };
        let size = export.device.size().to_be_bytes();
        let flags = export.flags(self.is_structured).to_be_bytes();
        answers.info(info::EXPORT, &[&size, &flags]);
        if query.wants(info::NAME) {
            answers.info(info::NAME, &[export.name.as_bytes()]);
        }
        if query.wants(info::DESCRIPTION) && !export.description.is_empty() {
            answers.info(info::DESCRIPTION, &[export.description.as_bytes()]);
        }
        if query.wants(info::BLOCK_SIZE) {
            let preferred = export.device.block_size().bytes();
            let sizes = [1, preferred, self.shared.limits.max_request].map(u32::to_be_bytes);
            answers.info(info::BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]]);
        }
        answers.ack();
        Some(export)
    }

    fn list_contexts(&self, data: &[u8], answers: &mut Answers) {
        let Some((_, query)) = self.context_query(data, answers) else { return };
        let asks = |query: &&str| [ALLOCATION, ALLOCATION_NAMESPACE].contains(query);
        if query.queries.is_empty() || query.queries.iter().any(asks) {
            answers.context(0);
        }
        answers.ack();
    }

    fn set_contexts(&mut self, data: &[u8], answers: &mut Answers) {
        // an earlier selection is dropped, even if this fails
        self.allocation_of = None;
        let Some((export, query)) = self.context_query(data, answers) else { return };
        if query.queries.contains(&ALLOCATION) {
            self.allocation_of = Some(export);
            answers.context(ALLOCATION_ID);
        }
        answers.ack();
    }

    fn context_query<'d>(
        &self,
        data: &'d [u8],
        answers: &mut Answers,
    ) -> Option<(Arc<Offered>, ContextQuery<'d>)> {
        if !self.is_structured {
            answers.error(answer::ERR_INVALID, "metadata need structured replies");
            return None;
        }
        let query = ContextQuery::decode(data).map_err(|bad| answers.bad(bad)).ok()?;
        let Some(export) = self.find(query.name) else {
            answers.error(answer::ERR_UNKNOWN, "there is no such export");
            return None;
        };
        Some((export, query))
    }
}

/// The server's answer to one option.
struct Answers {
    option: u32,
    bytes: Vec<u8>,
}

impl Answers {
    fn push(&mut self, kind: u32, data: &[&[u8]]) {
        let len: usize = data.iter().map(|part| part.len()).sum();
        self.bytes.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        self.bytes.extend(self.option.to_be_bytes());
        self.bytes.extend(kind.to_be_bytes());
        self.bytes.extend((len as u32).to_be_bytes());
        data.iter().for_each(|part| self.bytes.extend(*part));
    }

    fn ack(&mut self) {
        self.push(answer::ACK, &[]);
    }

    fn info(&mut self, kind: u16, data: &[&[u8]]) {
        let kind = kind.to_be_bytes();
        self.push(answer::INFO, &[&[kind.as_slice()], data].concat());
    }

    fn context(&mut self, id: u32) {
        self.push(answer::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION.as_bytes()]);
    }

    fn error(&mut self, kind: u32, message: &str) {
        self.push(kind, &[message.as_bytes()]);
    }

    fn bad(&mut self, bad: Bad) {
        match bad {
            Bad::Invalid(why) => self.error(answer::ERR_INVALID, why),
            Bad::TooBig(why) => self.error(answer::ERR_TOO_BIG, why),
        }
    }

    fn no_data_expected(&mut self) {
        self.error(answer::ERR_INVALID, "this option takes no data");
    }
}

async fn read(stream: &mut Box<dyn Stream>, bytes: &mut [u8]) -> Result<(), NbdError> {
    match stream.read_exact(bytes).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(NbdError::Gone { what: "the handshake" })
        }
        Err(error) => Err(NbdError::Io(error)),
    }
}

async fn write(stream: &mut Box<dyn Stream>, bytes: &[u8]) -> Result<(), NbdError> {
    stream.write_all(bytes).await.map_err(NbdError::Io)?;
    stream.flush().await.map_err(NbdError::Io)
}
