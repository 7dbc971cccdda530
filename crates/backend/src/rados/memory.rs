//! A model of the engine in memory.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::{
    Answer, Compare, OmapRange, OnUpdated, PoolIdentity, PoolKind, Query, RadosError, RadosPool,
    Refusal, Step, Update,
};

/// The engine answers at most this many entries of an omap at a time.
const OMAP_ENTRIES: u64 = 1024;

/// A namespace in memory, which behaves as the engine does: what simulations stand on.
///
/// An update is applied, and `done` called, before [`start_update`](RadosPool::start_update) returns.
pub struct MemoryRados {
    kind: PoolKind,
    is_full: AtomicBool,
    /// Seconds by which its clock is ahead of the system's.
    ahead: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Clone, Default)]
struct Inner {
    objects: BTreeMap<String, Object>,
    /// Of the last update, of any object. So no version comes back.
    version: u64,
}

#[derive(Clone, Default)]
struct Object {
    version: u64,
    changed: u64,
    bytes: Vec<u8>,
    xattrs: BTreeMap<String, Bytes>,
    omap: BTreeMap<String, Bytes>,
}

impl MemoryRados {
    /// An empty namespace of such a pool.
    pub fn new(kind: PoolKind) -> Self {
        let (is_full, ahead) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { kind, is_full, ahead, inner: Mutex::default() }
    }

    /// An empty namespace of a replicated pool with the engine's default limits.
    pub fn replicated() -> Self {
        Self::new(PoolKind {
            name: "replicated".into(),
            identity: PoolIdentity { cluster: "model".into(), number: 1 },
            has_omap: true,
            alignment: 1,
            max_object: 128 << 20,
            max_update: 90 << 20,
        })
    }

    /// An empty namespace of an erasure-coded pool: no omap, and appends at multiples of 8 KiB.
    pub fn erasure_coded() -> Self {
        let name = "erasure-coded".into();
        let Self { kind, .. } = Self::replicated();
        let identity = PoolIdentity { number: 2, ..kind.identity.clone() };
        Self::new(PoolKind { name, identity, has_omap: false, alignment: 8192, ..kind })
    }

    /// A pool of the same name with the same objects, as a restore or a copy of the pool makes one.
    pub fn copied_to(&self, identity: PoolIdentity) -> Self {
        let copy = Self::new(PoolKind { identity, ..self.kind.clone() });
        *copy.inner() = self.inner().clone();
        copy
    }

    /// Lets the pool be full, or have room again.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Release);
    }

    /// Advances its clock by `seconds`. Objects take their time of update from it.
    pub fn pass(&self, seconds: u64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_secs() + self.ahead.load(Ordering::Relaxed)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, object: &str, why: Refusal) -> RadosError {
        RadosError::Refused { object: object.to_owned(), pool: self.kind.name.clone(), why }
    }

    /// Why the engine refuses `update`, if it does: before anything changes.
    fn check(&self, object: Option<&Object>, update: &Update) -> Result<(), Refusal> {
        let (first, rest) = update.steps().split_first().expect("it is in order");
        if update.bytes() > self.kind.max_update {
            return Err(Refusal::TooLarge);
        }
        let made = Object::default();
        let object = match (first, object) {
            (Step::Create, Some(_)) => return Err(Refusal::Exists),
            (Step::Create, None) => &made,
            (_, None) => return Err(Refusal::Absent),
            (_, Some(object)) => object,
        };
        let mut length = object.bytes.len() as u64;
        for step in rest {
            let end = match step {
                Step::Omap { .. } | Step::SetOmap(_) | Step::RemoveOmap(_)
                    if !self.kind.has_omap =>
                {
                    return Err(Refusal::Unsupported);
                }
                guard if guard.is_guard() => {
                    object.check(guard)?;
                    continue;
                }
                Step::Append(bytes) => self.end_of_write(length, length, bytes)?,
                Step::Write(at, bytes) => self.end_of_write(length, *at, bytes)?,
                Step::Truncate(_) if self.kind.alignment > 1 => {
                    return Err(Refusal::Unsupported);
                }
                Step::Truncate(end) => *end,
                _ => continue,
            };
            if end > self.kind.max_object {
                return Err(Refusal::TooLarge);
            }
            length = if matches!(step, Step::Truncate(_)) { end } else { end.max(length) };
        }
        let is_removed = rest.last() == Some(&Step::Remove);
        let grows = *first == Step::Create || length > object.bytes.len() as u64;
        let is_full = self.is_full.load(Ordering::Acquire) && !update.is_for_full_pool();
        if is_full && grows && !is_removed {
            return Err(Refusal::Full);
        }
        Ok(())
    }

    fn end_of_write(&self, length: u64, at: u64, bytes: &Bytes) -> Result<u64, Refusal> {
        let is_aligned = at.is_multiple_of(self.kind.alignment);
        if self.kind.alignment > 1 && !(is_aligned && at == length) {
            return Err(Refusal::Unsupported);
        }
        at.checked_add(bytes.len() as u64).ok_or(Refusal::TooLarge)
    }

    fn apply(&self, name: &str, update: Update) -> Result<u64, RadosError> {
        let mut inner = self.inner();
        self.check(inner.objects.get(name), &update).map_err(|why| self.refused(name, why))?;
        inner.version += 1;
        let version = inner.version;
        if update.steps().last() == Some(&Step::Remove) {
            inner.objects.remove(name);
            return Ok(version);
        }
        let object = inner.objects.entry(name.to_owned()).or_default();
        update.steps().iter().for_each(|step| object.change(step));
        (object.version, object.changed) = (version, self.now());
        Ok(version)
    }
}

impl Object {
    fn check(&self, guard: &Step) -> Result<(), Refusal> {
        let holds = match guard {
            Step::Exists => true,
            Step::Version(version) => self.version == *version,
            Step::Xattr { name, is, value } => {
                let stored = self.xattrs.get(name).map_or(&b""[..], |stored| stored);
                match is {
                    Compare::Equal => value == stored,
                    Compare::Different => value != stored,
                    Compare::Greater => &value[..] > stored,
                }
            }
            Step::Omap { key, value } => {
                value == self.omap.get(key).map_or(&b""[..], |stored| stored)
            }
            change => panic!("a change among guards: {change:?}"),
        };
        if holds { Ok(()) } else { Err(Refusal::Guard) }
    }

    /// Does what a step says that was checked. The removal is the pool's.
    fn change(&mut self, step: &Step) {
        match step {
            Step::Append(bytes) => self.bytes.extend_from_slice(bytes),
            Step::Write(at, bytes) => {
                let (at, end) = (*at as usize, *at as usize + bytes.len());
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[at..end].copy_from_slice(bytes);
            }
            Step::Truncate(length) => self.bytes.resize(*length as usize, 0),
            Step::SetXattr(name, value) => {
                self.xattrs.insert(name.clone(), value.clone());
            }
            Step::SetOmap(entries) => self.omap.extend(entries.iter().cloned()),
            Step::RemoveOmap(keys) => keys.iter().for_each(|key| drop(self.omap.remove(key))),
            _ => {}
        }
    }

    fn answer(&self, query: &Query) -> Answer {
        let length = self.bytes.len() as u64;
        let bytes = query.range.as_ref().map_or(&b""[..], |range| {
            let end = range.end.min(length);
            &self.bytes[range.start.min(end) as usize..end as usize]
        });
        let (omap, has_more) = query.omap.as_ref().map_or_else(Default::default, |range| {
            let OmapRange { after, limit } = range;
            let after = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) };
            let mut entries = self.omap.range::<String, _>((after, Bound::Unbounded));
            let taken = entries.by_ref().take((*limit).min(OMAP_ENTRIES) as usize);
            let taken = taken.map(|(key, value)| (key.clone(), value.clone())).collect();
            (taken, entries.next().is_some())
        });
        Answer {
            version: self.version,
            length,
            changed: self.changed,
            bytes: Bytes::copy_from_slice(bytes),
            xattrs: if query.xattrs { self.xattrs.clone() } else { BTreeMap::new() },
            omap,
            has_more,
        }
    }
}

impl RadosPool for MemoryRados {
    fn kind(&self) -> &PoolKind {
        &self.kind
    }

    fn start_update(&self, object: &str, update: Update, done: OnUpdated) {
        update.expect_in_order();
        done(self.apply(object, update));
    }

    fn query(&self, object: &str, query: &Query) -> Result<Answer, RadosError> {
        let inner = self.inner();
        let refused = |why| self.refused(object, why);
        if query.omap.is_some() && !self.kind.has_omap {
            return Err(refused(Refusal::Unsupported));
        }
        let found = inner.objects.get(object).ok_or_else(|| refused(Refusal::Absent))?;
        query.guards.iter().try_for_each(|guard| found.check(guard)).map_err(refused)?;
        Ok(found.answer(query))
    }

    fn list(&self, each: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), RadosError> {
        let names: Vec<String> = self.inner().objects.keys().cloned().collect();
        // The flow says only who ended it.
        let _ = names.iter().try_for_each(|name| each(name));
        Ok(())
    }
}
