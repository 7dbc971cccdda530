//! A pool whose calls meet what a test chooses.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Answer, OnUpdated, PoolKind, Query, RadosError, RadosPool, Refusal, Update};

/// What becomes of a call. A query changes nothing, so for one all fates without an answer are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered.
    Answered,
    /// It is never done, and there is no answer.
    Lost,
    /// It is done, and there is no answer.
    AnswerLost,
    /// There is no answer, and it is done when the test [delivers](FatedRados::deliver) it.
    Late,
    /// It is done and answered, and done again when the test delivers it. The engine does not do that as
    /// far as anybody knows.
    Twice,
    /// It is refused, for instance since the pool is full or the client blocklisted.
    Refused(Refusal),
}

type Choose = dyn Fn(&str, Option<&Update>) -> Fate + Send + Sync;

/// A pool as one client sees it whose calls meet the fates that a test chooses.
pub struct FatedRados {
    inner: Arc<dyn RadosPool>,
    choose: Box<Choose>,
    late: Mutex<Vec<(String, Update)>>,
}

impl FatedRados {
    /// The pool `inner`, whose calls meet what `choose` says. It is called before each call, with the
    /// object and the update, or no update for a query. A list is a query of no object.
    pub fn new(
        inner: Arc<dyn RadosPool>,
        choose: impl Fn(&str, Option<&Update>) -> Fate + Send + Sync + 'static,
    ) -> Self {
        Self { inner, choose: Box::new(choose), late: Mutex::default() }
    }

    fn late(&self) -> MutexGuard<'_, Vec<(String, Update)>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many updates are late.
    pub fn undelivered(&self) -> usize {
        self.late().len()
    }

    /// Does the late update number `at` of those that are left, in any order that the test likes. Nobody
    /// waits for its answer.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn deliver(&self, at: usize) -> Result<u64, RadosError> {
        let (object, update) = self.late().swap_remove(at);
        self.inner.update(&object, update)
    }

    /// The error that the caller gets instead of an answer, if it is to get one.
    fn error(&self, object: &str, fate: Fate) -> Option<RadosError> {
        let (object, pool) = (object.to_owned(), self.kind().name.clone());
        match fate {
            Fate::Answered | Fate::Twice => None,
            Fate::Lost | Fate::AnswerLost | Fate::Late => {
                Some(RadosError::Unknown { object, pool, code: "as the test chose".into() })
            }
            Fate::Refused(why) => Some(RadosError::Refused { object, pool, why }),
        }
    }
}

impl RadosPool for FatedRados {
    fn kind(&self) -> &PoolKind {
        self.inner.kind()
    }

    fn start_update(&self, object: &str, update: Update, done: OnUpdated) {
        let fate = (self.choose)(object, Some(&update));
        if matches!(fate, Fate::Late | Fate::Twice) {
            self.late().push((object.to_owned(), update.clone()));
        }
        let Some(error) = self.error(object, fate) else {
            return self.inner.start_update(object, update, done);
        };
        if fate == Fate::AnswerLost {
            let lose = move |_| done(Err(error));
            return self.inner.start_update(object, update, Box::new(lose));
        }
        done(Err(error));
    }

    fn query(&self, object: &str, query: &Query) -> Result<Answer, RadosError> {
        let fate = (self.choose)(object, None);
        self.error(object, fate).map_or_else(|| self.inner.query(object, query), Err)
    }

    fn list(&self, each: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), RadosError> {
        let fate = (self.choose)("", None);
        self.error("", fate).map_or_else(|| self.inner.list(each), Err)
    }
}
