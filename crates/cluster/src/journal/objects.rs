//! The objects of one shard.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{Answer, Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_seal::ObjectId;
use onefold_volume::{Frame, VolumeError, Writer};

use super::head::{Made, State, Trash};
use crate::error::failed;
use crate::seeded::fault;

/// Attribute of heads and segments: the number of the one writer whose updates are taken.
pub(super) const WRITER: &str = "writer";
/// Attribute of segments: the number of the next batch.
pub(super) const NEXT: &str = "next";
/// Attribute of segments that are sealed: the segment that follows.
pub(super) const FOLLOW: &str = "follow";
/// Attribute of heads: the [`State`].
const STATE: &str = "state";

/// So many bytes are read at a time: at least one frame.
const PIECE: u64 = 16 << 20;
const _: () = assert!(PIECE >= Frame::MAX_LEN as u64);

/// Takes the bodies of frames that were read together.
pub(super) type TakeBodies<'a> = dyn FnMut(&[&[u8]]) -> Result<(), VolumeError> + 'a;

/// Where the objects of a shard are.
pub(super) struct ShardObjects {
    pub(super) pool: Arc<dyn RadosPool>,
    pub(super) shard: ObjectId,
}

/// What the head was at one moment.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) writer: Writer,
    pub(super) version: u64,
    pub(super) state: State,
}

/// What the attributes of a segment said at one moment.
pub(super) struct Segment {
    pub(super) next: u64,
    /// The one that follows, if it is sealed.
    pub(super) follow: Option<Made>,
    /// In bytes.
    pub(super) length: u64,
}

/// An attribute that is a number.
pub(super) fn number(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

pub(super) fn damaged(object: &str, at: u64, problem: String) -> VolumeError {
    VolumeError::Damaged { object: object.to_owned(), at, problem }
}

/// The attribute `name` of an object, which has `N` bytes.
fn attribute<const N: usize>(
    answer: &Answer,
    object: &str,
    name: &str,
) -> Result<[u8; N], VolumeError> {
    let found = answer.xattrs.get(name).map_or(&b""[..], |value| value);
    found.try_into().map_err(|_| {
        let problem = format!("attribute '{name}' has {} bytes, expected {N}", found.len());
        damaged(object, 0, problem)
    })
}

impl ShardObjects {
    pub(super) fn head(&self) -> String {
        format!("{}.head", self.shard)
    }

    pub(super) fn segment(&self, name: Made) -> String {
        format!("{}.segment.{name}", self.shard)
    }

    /// Part `part` of a checkpoint.
    pub(super) fn part(&self, checkpoint: Made, part: u32) -> String {
        format!("{}.checkpoint.{checkpoint}.{part:08x}", self.shard)
    }

    pub(super) fn update(&self, object: &str, update: Update) -> Result<u64, VolumeError> {
        self.send(object, update).map_err(|error| failed(Operation::Write, error))
    }

    /// Applies `update` also in a full pool: a batch may be what gives room back, and a take-over writes some.
    /// What a client writes is refused before, when its pages are.
    pub(super) fn send(&self, object: &str, update: Update) -> Result<u64, RadosError> {
        self.pool.update(object, update.even_if_full())
    }

    /// What `query` gets; none if the object is absent.
    fn query(&self, object: &str, query: &Query) -> Result<Option<Answer>, VolumeError> {
        match self.pool.query(object, query) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.refusal() == Some(Refusal::Absent) => Ok(None),
            Err(error) => Err(failed(Operation::Read, error)),
        }
    }

    /// Whether there is such an object.
    pub(super) fn has(&self, object: &str) -> Result<bool, VolumeError> {
        self.query(object, &Query::default()).map(|answer| answer.is_some())
    }

    /// What the head is now.
    pub(super) fn read_head(&self) -> Result<Head, VolumeError> {
        let name = self.head();
        let answer = self.query(&name, &Query { xattrs: true, ..Query::default() })?;
        let answer = answer.ok_or_else(|| {
            damaged(&name, 0, "it is missing, expected the head of the shard".into())
        })?;
        let writer = Writer(u64::from_be_bytes(attribute(&answer, &name, WRITER)?));
        let state = answer.xattrs.get(STATE).map_or(&b""[..], |state| state);
        let state = State::decode(self.shard, &name, state)?;
        Ok(Head { writer, version: answer.version, state })
    }

    /// What the head is now. Fails unless `writer` has the shard.
    pub(super) fn own_head(&self, writer: Writer) -> Result<Head, VolumeError> {
        let head = self.read_head()?;
        if head.writer > writer {
            return Err(VolumeError::Superseded { writer, by: head.writer });
        }
        if head.writer < writer {
            let problem = format!("it has writer {}, expected {writer} or later", head.writer);
            return Err(damaged(&self.head(), 0, problem));
        }
        Ok(head)
    }

    /// Makes the head of a new shard.
    pub(super) fn create_head(&self, state: &State) -> Result<u64, RadosError> {
        let update = Update::creating().set(WRITER, number(0));
        self.send(&self.head(), update.set(STATE, state.encode(self.shard)))
    }

    /// Claims the shard: raises the writer on the head, and returns the new one.
    pub(super) fn claim(&self) -> Result<Writer, VolumeError> {
        loop {
            let Head { writer, .. } = self.read_head()?;
            let next = writer.0.checked_add(1).map(Writer).ok_or_else(|| {
                damaged(&self.head(), 0, format!("no writer comes after {writer}"))
            })?;
            let update = Update::existing().expect(WRITER, number(writer.0));
            match self.send(&self.head(), update.set(WRITER, number(next.0))) {
                Ok(_) => return Ok(next),
                // Another one claimed it in between: one of those that race always succeeds.
                Err(error) if error.refusal() == Some(Refusal::Guard) => {}
                Err(error) => return Err(failed(Operation::Write, error)),
            }
        }
    }

    /// Changes the head from what it was as `head` to `state`.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Superseded`], or if anything changed the head since.
    pub(super) fn change_head(&self, head: &mut Head, state: State) -> Result<(), VolumeError> {
        let mut update = Update::existing();
        if !fault!(HeadUnguarded) {
            update = update.then(Step::Version(head.version)).expect(WRITER, number(head.writer.0));
        }
        let update = update.set(STATE, state.encode(self.shard));
        match self.send(&self.head(), update) {
            Ok(version) => {
                (head.version, head.state) = (version, state);
                Ok(())
            }
            Err(error) if error.refusal() == Some(Refusal::Guard) => {
                self.own_head(head.writer)?;
                let why = "an earlier update of the head arrived late, so this one was not done: try again";
                Err(VolumeError::Unanswered { source: why.into() })
            }
            Err(error) => Err(failed(Operation::Write, error)),
        }
    }

    /// Makes an empty segment that takes batches of `writer` from number `next` on.
    pub(super) fn create_segment(
        &self,
        name: Made,
        writer: Writer,
        next: u64,
    ) -> Result<u64, RadosError> {
        let update = Update::creating().set(WRITER, number(writer.0)).set(NEXT, number(next));
        self.send(&self.segment(name), update)
    }

    /// Lets a segment take nothing of writers before `writer`.
    pub(super) fn raise(&self, segment: Made, writer: Writer) -> Result<(), VolumeError> {
        let update = Update::existing().expect_below(WRITER, number(writer.0));
        self.update(&self.segment(segment), update.set(WRITER, number(writer.0))).map(drop)
    }

    pub(super) fn missing(&self, segment: Made) -> VolumeError {
        damaged(&self.segment(segment), 0, "it is missing".into())
    }

    /// What the attributes of a segment say; none if it is absent.
    pub(super) fn look(&self, segment: Made) -> Result<Option<Segment>, VolumeError> {
        let name = self.segment(segment);
        let answer = self.query(&name, &Query { xattrs: true, ..Query::default() })?;
        answer.map(|answer| self.segment_of(&name, &answer)).transpose()
    }

    fn segment_of(&self, name: &str, answer: &Answer) -> Result<Segment, VolumeError> {
        let follow = match answer.xattrs.contains_key(FOLLOW) {
            true => Some(Made::decode(attribute(answer, name, FOLLOW)?)),
            false => None,
        };
        let next = u64::from_be_bytes(attribute(answer, name, NEXT)?);
        Ok(Segment { next, follow, length: answer.length })
    }

    /// Gives the batches of a segment to `take`, from number `next` on, which is raised to the number
    /// behind the last. Fails unless `writer` was raised on it.
    pub(super) fn read_segment(
        &self,
        segment: Made,
        writer: Writer,
        next: &mut u64,
        take: &mut TakeBodies<'_>,
    ) -> Result<Segment, VolumeError> {
        let name = self.segment(segment);
        let first = *next;
        if fault!(SegmentSkipped)
            && let Some(found) = self.look(segment)?
            && found.follow.is_some()
        {
            *next = found.next;
            return Ok(found);
        }
        let guard = Update::existing().expect(WRITER, number(writer.0));
        let guards = if fault!(RaisedLate) { &[] } else { guard.steps() };
        let answer = self.read_frames(&name, guards, next, take)?;
        let found = self.segment_of(&name, &answer)?;
        let problem = if found.next != *next {
            format!("batches up to {} are here, expected all before {}", *next, found.next)
        } else if found.follow.is_some() && first == *next {
            "another segment follows, expected a batch here".into()
        } else {
            return Ok(found);
        };
        Err(damaged(&name, found.length, problem))
    }

    /// Gives the bodies of the frames of `object` to `take`, from number `next` on, those of one read together.
    /// Returns what the object is besides.
    pub(super) fn read_frames(
        &self,
        object: &str,
        guards: &[Step],
        next: &mut u64,
        take: &mut TakeBodies<'_>,
    ) -> Result<Answer, VolumeError> {
        let mut at = 0;
        loop {
            let range = Some(at..at + PIECE);
            let query = Query { guards: guards.to_vec(), range, xattrs: true, omap: None };
            let answer = self.query(object, &query)?;
            let answer = answer.ok_or_else(|| damaged(object, at, "it is missing".into()))?;
            let begin = at;
            let mut rest = &answer.bytes[..];
            let mut bodies = Vec::new();
            while let Some(frame) = Frame::decode(self.shard, rest)
                && frame.number == *next
            {
                bodies.push(frame.body);
                *next += 1;
                at += frame.len() as u64;
                rest = &rest[frame.len()..];
            }
            take(&bodies)?;
            if at == answer.length {
                return Ok(answer);
            }
            if at == begin {
                return Err(damaged(object, at, format!("no frame {next} is here")));
            }
        }
    }

    /// All segments of the shard, also those that nothing leads to.
    pub(super) fn segments(&self) -> Result<BTreeSet<Made>, VolumeError> {
        let prefix = format!("{}.segment.", self.shard);
        let mut found = BTreeSet::new();
        let listed = self.pool.list(&mut |object| {
            found.extend(object.strip_prefix(&prefix).and_then(Made::parse));
            ControlFlow::Continue(())
        });
        listed.map_err(|error| failed(Operation::List, error))?;
        Ok(found)
    }

    /// Removes what is left of `trash`, whose segments end before `until`.
    pub(super) fn remove_trash(&self, trash: Trash, until: Made) -> Result<(), VolumeError> {
        if let Some(checkpoint) = trash.checkpoint {
            let mut parts = 0;
            while self.has(&self.part(checkpoint, parts))? {
                parts += 1;
            }
            // The first go last: what is left if this fails is found again.
            (0..parts).rev().try_for_each(|part| self.remove(&self.part(checkpoint, part)))?;
        }
        let (mut chain, mut next) = (Vec::new(), None);
        let mut segment = trash.segment;
        while let Some(name) = segment.filter(|name| *name != until)
            && let Some(found) = self.look(name)?
        {
            if found.follow.is_none() || Some(found.next) <= next {
                let problem = format!("no way leads on, expected one to segment {until}");
                return Err(damaged(&self.segment(name), 0, problem));
            }
            chain.push(name);
            (segment, next) = (found.follow, Some(found.next));
        }
        chain.into_iter().rev().try_for_each(|name| self.remove(&self.segment(name)))
    }

    /// Removes the segments and parts of checkpoints of writers before `writer`, which has the shard, that
    /// the head does not lead to. Returns how many.
    ///
    /// What `writer` itself made is left: a late update may name it yet. Those of earlier ones are refused.
    pub(super) fn remove_leaked(&self, writer: Writer) -> Result<u64, VolumeError> {
        let state = self.own_head(writer)?.state;
        let mut needed = BTreeSet::new();
        needed.extend(state.checkpoint.map(|checkpoint| checkpoint.name));
        needed.extend(state.begun);
        let mut segment = Some(state.segment);
        while let Some(name) = segment.filter(|name| needed.insert(*name)) {
            let found = self.look(name)?;
            if found.is_none() {
                // It went with a checkpoint, perhaps a later writer's, which may need what follows.
                if self.own_head(writer)?.state != state {
                    return self.remove_leaked(writer);
                }
                return Err(self.missing(name));
            }
            segment = found.and_then(|found| found.follow);
        }
        let prefix = format!("{}.", self.shard);
        let mut leaked = Vec::new();
        let listed = self.pool.list(&mut |object| {
            let name = object.strip_prefix(&prefix).unwrap_or_default();
            let part = name.strip_prefix("checkpoint.").and_then(|rest| rest.rsplit_once('.'));
            let name = name.strip_prefix("segment.").or_else(|| part.map(|(name, _)| name));
            let is_leaked = name.and_then(Made::parse).is_some_and(|made| {
                !needed.contains(&made) && (made.writer < writer || fault!(OwnRemoved))
            });
            leaked.extend(is_leaked.then(|| object.to_owned()));
            ControlFlow::Continue(())
        });
        listed.map_err(|error| failed(Operation::List, error))?;
        leaked.iter().try_for_each(|object| self.remove(object))?;
        Ok(leaked.len() as u64)
    }

    fn remove(&self, object: &str) -> Result<(), VolumeError> {
        match self.send(object, Update::existing().then(Step::Remove)) {
            Err(error) if error.refusal() != Some(Refusal::Absent) => {
                Err(failed(Operation::Delete, error))
            }
            _ => Ok(()),
        }
    }
}
