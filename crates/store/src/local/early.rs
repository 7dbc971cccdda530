//! Answers that are asked for before they are needed, many at once.
//!
//! A command that opens a repository far away knows early what it will ask: which prefixes it lists,
//! and what it reads of what they show. All that is asked together, and waits here until it is asked
//! for. So it takes the time of one round trip.
//!
//! An answer serves once, and so does an error. All are dropped when something is put, deleted or
//! settled, because what is asked from then on is to show the repository as it is afterwards; and none
//! serves that is older than [`FRESH`], as it may be after somebody was asked for a password.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use onefold_backend::{BackendError, ObjectInfo, Objects, OnAnswer, Request, Span};
use onefold_container as container;
use onefold_index as index;

use crate::objects::client::ClientState;
use crate::objects::{bundle, client, config, entry, key, mark, snapshot};
use crate::threads::joined;

/// For so long an answer serves.
const FRESH: Duration = Duration::from_secs(10);

/// The longest object that is read early, in bytes, and how many of each kind, at most.
const MAX_LEN: u64 = 16 << 20;
const MAX_READ: usize = 256;

/// Bytes of objects that wait here at most; what is more is asked for again.
const MAX_BYTES: usize = 32 << 20;

/// Objects, and answers that came early.
pub(crate) struct Early {
    objects: Arc<dyn Objects>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    listed: HashMap<String, (Instant, Result<Vec<ObjectInfo>, BackendError>)>,
    read: HashMap<String, (Instant, Result<Bytes, BackendError>)>,
    /// Of all that were read.
    bytes: usize,
}

impl Early {
    pub(crate) fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects, answers: Mutex::default() }
    }

    /// Lists all of `prefixes`, and reads the objects `names` of at most `max` bytes each, all at once.
    pub(crate) fn ask(&self, prefixes: &[&str], names: Vec<String>, max: u64) {
        let listed = thread::scope(|scope| {
            let list = |prefix| {
                scope.spawn(move || {
                    let listed = self.objects.list(prefix);
                    (Instant::now(), listed)
                })
            };
            let lists: Vec<_> = prefixes.iter().copied().map(list).collect();
            self.read(names, max);
            lists.into_iter().map(joined).collect::<Vec<_>>()
        });
        let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned());
        self.lock().listed.extend(prefixes.zip(listed));
    }

    fn read(&self, names: Vec<String>, max: u64) {
        let request = |name: &String| Request { name: name.clone(), span: Span::Whole { max } };
        let read = self.objects.get_many(&mut names.iter().map(request), &mut |at, answer| {
            let mut answers = self.lock();
            answers.bytes += answer.as_ref().map_or(0, Bytes::len);
            if answers.bytes > MAX_BYTES {
                answers.bytes -= answer.as_ref().map_or(0, Bytes::len);
                return ControlFlow::Break(());
            }
            answers.read.insert(names[at].clone(), (Instant::now(), answer));
            ControlFlow::Continue(())
        });
        match read {
            ControlFlow::Continue(()) | ControlFlow::Break(()) => {}
        }
    }

    /// Reads all log entries, snapshots and runs that listings show which wait here, but those that
    /// `is_had`: for a client that knows nothing of the repository yet.
    pub(crate) fn ask_all(&self, is_had: &dyn Fn(&str) -> bool) {
        let prefixes = [entry::PREFIX, snapshot::PREFIX, index::PREFIX];
        let names = prefixes.iter().flat_map(|prefix| self.listed(prefix));
        let is_wanted = |name: &String| !is_had(name) && !self.lock().read.contains_key(name);
        self.ask(&[], names.filter(is_wanted).collect(), MAX_LEN);
    }

    /// What a listing of `prefix` showed that waits here; nothing if there is none.
    pub(crate) fn listed(&self, prefix: &str) -> Vec<String> {
        match self.lock().listed.get(prefix) {
            Some((_, Ok(listed))) => listed.iter().map(|info| info.name.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Lets a listing that came at `since` serve once more.
    pub(crate) fn hand_on(&self, prefix: &str, listed: Vec<ObjectInfo>, since: Instant) {
        self.lock().listed.insert(prefix.to_owned(), (since, Ok(listed)));
    }

    /// Drops all answers.
    pub(crate) fn end(&self) {
        *self.lock() = Answers::default();
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_listed(&self, prefix: &str) -> Option<Result<Vec<ObjectInfo>, BackendError>> {
        let (came, listed) = self.lock().listed.remove(prefix)?;
        (came.elapsed() <= FRESH).then_some(listed)
    }

    fn take_read(&self, name: &str, max: u64) -> Option<Result<Bytes, BackendError>> {
        let mut answers = self.lock();
        let (came, read) = answers.read.remove(name)?;
        answers.bytes -= read.as_ref().map_or(0, Bytes::len);
        let fits = match &read {
            Ok(bytes) => bytes.len() as u64 <= max,
            // Another bound may hold for whoever asks now.
            Err(error) => !matches!(error, BackendError::TooLong { .. }),
        };
        (fits && came.elapsed() <= FRESH).then_some(read)
    }
}

impl Objects for Early {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.end();
        self.objects.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.take_read(name, u64::MAX).unwrap_or_else(|| self.objects.get(name))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.objects.get_range(name, range)
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.take_read(name, max).unwrap_or_else(|| self.objects.get_limited(name, max))
    }

    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        if self.lock().read.is_empty() {
            return self.objects.get_many(requests, take);
        }
        let (mut positions, mut others) = (Vec::new(), Vec::new());
        for (at, request) in requests.enumerate() {
            let early = match request.span {
                Span::Whole { max } => self.take_read(&request.name, max),
                Span::Range(_) => None,
            };
            match early {
                Some(answer) => take(at, answer)?,
                None => {
                    positions.push(at);
                    others.push(request);
                }
            }
        }
        let take = &mut |number: usize, answer| take(positions[number], answer);
        self.objects.get_many(&mut others.into_iter(), take)
    }

    fn gap(&self) -> u64 {
        self.objects.gap()
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.objects.size(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.take_listed(prefix).unwrap_or_else(|| self.objects.list(prefix))
    }

    fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        match self.take_listed(prefix) {
            Some(listed) => Ok(listed?.into_iter().map(|info| info.name).collect()),
            None => self.objects.list_names(prefix),
        }
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.end();
        self.objects.delete(name)
    }

    fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
        self.end();
        self.objects.delete_each(names)
    }

    fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
        self.objects.discard_unfinished(age)
    }

    fn settle(&self) -> Result<(), BackendError> {
        self.end();
        self.objects.settle()
    }
}

/// What a command asks early to open its repository.
pub(crate) struct Opening {
    early: Arc<Early>,
    needs_index: bool,
    begun: Instant,
}

impl Opening {
    /// Asks for what does not depend on anything.
    pub(crate) fn begin(early: Arc<Early>, needs_index: bool) -> Self {
        let opening = Self { early, needs_index, begun: Instant::now() };
        opening.list(vec![config::NAME.into()]);
        opening
    }

    fn list(&self, names: Vec<String>) {
        let first = [key::PREFIX, key::EPOCHS, client::PREFIX, entry::PREFIX, snapshot::PREFIX];
        let mut prefixes = [&first[..], &[mark::PREFIX, bundle::PREFIX]].concat();
        if self.needs_index {
            prefixes.push(index::PREFIX);
        }
        self.early.ask(&prefixes, names, MAX_LEN);
    }

    /// Asks for what the listings show that is needed: keys, epochs, the records by which clients' keys
    /// were taken back, and the last entry of each log. Containers are listed now, after the marks.
    pub(crate) fn read(&self) {
        if self.begun.elapsed() > FRESH {
            self.list(Vec::new());
        }
        let of = |prefix: &str, is_it: &dyn Fn(&str) -> bool| {
            let listed = self.early.listed(prefix).into_iter();
            listed.filter(|name| is_it(name)).take(MAX_READ).collect::<Vec<_>>()
        };
        let names = [
            of(key::PREFIX, &|name| key::key_id(name).is_some()),
            of(key::EPOCHS, &|name| key::epoch_number(name).is_some()),
            of(client::PREFIX, &|name| {
                client::record_at(name).is_some_and(|(_, state)| state == ClientState::Kept)
            }),
            entry::last_of_each(&self.early.listed(entry::PREFIX)).take(MAX_READ).collect(),
        ];
        let prefixes: &[&str] = if self.needs_index { &[container::PREFIX] } else { &[] };
        self.early.ask(prefixes, names.concat(), MAX_LEN);
    }

    pub(crate) fn into_early(self) -> Arc<Early> {
        self.early
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryObjects;

    use super::*;

    /// Objects `a/1` and `a/2`, asked for early and changed since.
    fn changed() -> (Early, Arc<MemoryObjects>) {
        let objects = Arc::new(MemoryObjects::new());
        objects.put("a/1", "one".into()).unwrap();
        objects.put("a/2", "two".into()).unwrap();
        let early = Early::new(Arc::clone(&objects) as Arc<dyn Objects>);
        early.ask(&["a/", "b/"], vec!["a/1".into(), "a/2".into(), "a/3".into()], 10);
        objects.delete("a/1").unwrap();
        objects.put("a/3", "three".into()).unwrap();
        (early, objects)
    }

    fn names(early: &Early) -> Vec<String> {
        early.list("a/").unwrap().into_iter().map(|info| info.name).collect()
    }

    #[test]
    fn each_answer_serves_once() {
        let (early, _) = changed();
        assert_eq!(early.listed("a/"), ["a/1", "a/2"]);
        assert_eq!(names(&early), ["a/1", "a/2"]);
        assert_eq!(names(&early), ["a/2", "a/3"]);
        assert_eq!(early.get_limited("a/1", 10).unwrap(), "one");
        assert!(early.get_limited("a/1", 10).unwrap_err().is_not_found());
        assert!(early.get("a/3").unwrap_err().is_not_found());
        assert_eq!(early.get("a/3").unwrap(), "three");
    }

    #[test]
    fn many_requests_keep_their_positions() {
        let (early, _) = changed();
        let request = |name: &str| Request { name: name.into(), span: Span::Whole { max: 10 } };
        let mut requests = ["a/3", "a/2", "a/1"].map(request).into_iter();
        let mut answers = [const { None }; 3];
        let _ = early.get_many(&mut requests, &mut |at, answer| {
            answers[at] = Some(answer.ok());
            ControlFlow::Continue(())
        });
        assert_eq!(
            answers,
            [None, Some("two"), Some("one")].map(|text| Some(text.map(Bytes::from)))
        );
    }

    #[test]
    fn no_answer_outlives_a_change() {
        let changes: [fn(&Early); 4] = [
            |early| early.put("c", "1".into()).unwrap(),
            |early| early.delete("c").unwrap(),
            |early| early.settle().unwrap(),
            Early::end,
        ];
        for change in changes {
            let (early, _) = changed();
            change(&early);
            assert_eq!(names(&early), ["a/2", "a/3"]);
            assert!(early.get("a/1").unwrap_err().is_not_found());
        }
    }

    #[test]
    fn nothing_longer_is_taken_than_was_asked_for() {
        let (early, _) = changed();
        let error = early.get_limited("a/2", 2).unwrap_err();
        assert!(matches!(error, BackendError::TooLong { size: 3, max: 2, .. }), "{error:?}");
    }
}
