//! Containers that shards share, and who uses each: the protocol of
//! [0053](../../../../docs/decisions/0053-cluster-core.md).
//!
//! A container is two objects of one name: its *guard* in the pool for metadata, which has the shards that
//! use it, and its pages in the pool for data. Each function here sends one update of one object, and asks
//! again where there is no answer; which function is which step of the protocol says the decision.

mod census;
mod closing;
mod container;
mod footer;
mod fsck;
mod guard;
mod log;
mod protect;
mod release;
mod shared;
mod sweep;
mod usage;

pub(crate) use census::take_census;
pub use census::{Census, ShardSpace};
pub use closing::{Closed, WASTE};
pub(crate) use closing::{MAPPED, close, mapped_of, mapped_value, reuse};
pub use container::{Containers, Look};
pub(crate) use fsck::fsck_in;
pub use fsck::{Checked, Problem, fsck, fsck_while};
pub use guard::{Access, Guard, Guards, MOST_USERS, Registered, Value};
pub use release::{Found, release, sweep_names};
pub use shared::SharedContainers;
pub(crate) use shared::{name_of, shared_name};
pub use sweep::Swept;
pub use usage::Usage;

use onefold_backend::rados::{Answer, Query, RadosError, RadosPool, Refusal};
use onefold_seal::ObjectId;

use crate::hints::ContainerName;

/// How often an operation is sent that got no answer, or that another one came before.
const TRIES: u32 = 16;

/// `SHARD.KIND.WRITER.NUMBER`.
fn object(kind: &str, name: &ContainerName) -> String {
    let ContainerName { shard, writer, number } = name;
    format!("{shard}.{kind}.{writer:016x}.{number:016x}")
}

/// The container whose object of this `kind` is called `object`.
fn parse(kind: &str, object: &str) -> Option<ContainerName> {
    let mut parts = object.split('.');
    let shard = parts.next()?.parse::<ObjectId>().ok()?;
    if parts.next()? != kind {
        return None;
    }
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let name = ContainerName { shard, writer: number()?, number: number()? };
    (self::object(kind, &name) == object).then_some(name)
}

/// What `query` gets of an object, asked again while there is no answer; none if the object is absent.
fn ask(pool: &dyn RadosPool, object: &str, query: &Query) -> Result<Option<Answer>, RadosError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match pool.query(object, query) {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) if error.refusal() == Some(Refusal::Absent) => return Ok(None),
            Err(error) if error.refusal().is_some() || tries == TRIES => return Err(error),
            Err(_) => {}
        }
    }
}
