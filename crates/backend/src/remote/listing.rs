//! Long listings, with concurrent requests for several pages.
//!
//! An answer has a thousand names, and the next request must name the end of the answer before. Most names
//! of a repository are random and begin with hexadecimal digits. So the range of the first page tells about
//! how many names there are, and where other pages begin.

use std::future::ready;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, Result};

use crate::ObjectInfo;
use crate::stored::info;

/// Names in an answer.
const PAGE: usize = 1_000;

/// Names that are expected in a part: fewer than in a page, because parts differ in length.
const PART: usize = 850;

/// The maximum number of parts that are requested concurrently.
const MAX_PARTS: usize = 64;

/// How many parts two hexadecimal digits tell apart.
const POSITIONS: usize = 256;

/// All objects below `directory`, or all objects.
pub(super) async fn list(
    store: &impl ObjectStore,
    directory: Option<&Path>,
) -> Result<Vec<ObjectInfo>> {
    let mut listing = store.list(directory).map_ok(info);
    let mut found: Vec<ObjectInfo> = listing.by_ref().take(PAGE).try_collect().await?;
    if found.len() < PAGE {
        return Ok(found);
    }
    match parts(directory, &found) {
        Some(parts) => {
            drop(listing);
            let lists = parts.iter().map(|part| list_part(store, directory, part));
            let rest = stream::iter(lists).buffer_unordered(parts.len());
            found.extend(rest.try_concat().await?);
        }
        None => found.extend(listing.try_collect::<Vec<_>>().await?),
    }
    Ok(found)
}

/// Names after the first and up to the second; to the end if there is no second.
type Part = (Path, Option<Path>);

async fn list_part(
    store: &impl ObjectStore,
    directory: Option<&Path>,
    part: &Part,
) -> Result<Vec<ObjectInfo>> {
    inside(store.list_with_offset(directory, &part.0), part).await
}

/// What is in a part, of a listing that may begin before it: some services take no notice of where a
/// listing is to begin.
async fn inside(
    listing: impl Stream<Item = Result<ObjectMeta>>,
    (after, until): &Part,
) -> Result<Vec<ObjectInfo>> {
    let ends = |meta: &ObjectMeta| until.as_ref().is_some_and(|until| meta.location > *until);
    let listing = listing.try_take_while(|meta| ready(Ok(!ends(meta))));
    listing.try_filter(|meta| ready(meta.location > *after)).map_ok(info).try_collect().await
}

/// The parts of what follows the first page of a listing, if its names allow to tell.
fn parts(directory: Option<&Path>, page: &[ObjectInfo]) -> Option<Vec<Part>> {
    let last = &page.last()?.name;
    if !page.is_sorted_by(|one, next| one.name < next.name) {
        return None;
    }
    let reached = position(directory?, last)? + 1;
    let left = page.len() * (POSITIONS - reached) / reached;
    let count = left.div_ceil(PART).clamp(1, MAX_PARTS.min(POSITIONS - reached + 1));
    let bounds = (1..count).map(|number| {
        let position = reached + number * (POSITIONS - reached) / count;
        Path::from(format!("{}/{position:02x}", directory.map_or("", AsRef::as_ref)))
    });
    let bounds: Vec<_> = std::iter::once(Path::from(last.as_str())).chain(bounds).collect();
    let ends = bounds[1..].iter().cloned().map(Some).chain([None]);
    Some(bounds.iter().cloned().zip(ends).collect())
}

/// Where among all names below `directory` the digits put `name` that it begins with.
fn position(directory: &Path, name: &str) -> Option<usize> {
    let rest = name.strip_prefix(directory.as_ref())?.strip_prefix('/')?;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = rest.get(..2).filter(|digits| digits.as_bytes().iter().all(is_digit))?;
    usize::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutPayload};

    use super::*;

    /// What [`list`] finds among `names` below `directory`, sorted.
    fn listed(names: &[String], directory: &str) -> Vec<String> {
        let found = futures::executor::block_on(async {
            let store = InMemory::new();
            for name in names {
                store.put(&Path::from(name.as_str()), PutPayload::new()).await.unwrap();
            }
            list(&store, Some(&Path::from(directory))).await.unwrap()
        });
        let mut found: Vec<String> = found.into_iter().map(|object| object.name).collect();
        found.sort();
        found
    }

    #[test]
    fn every_name_is_listed_once_however_names_are_distributed() {
        let shards = |number: u64| format!("a/{:02x}/{number:08x}", number * 37 % 256);
        let forms: [&dyn Fn(u64) -> String; 6] = [
            &shards,
            &|number| format!("a/{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            &|number| format!("a/{number:08x}"),
            &|number| format!("a/f{number:08x}"),
            &|number| format!("a/ff{number:08x}"),
            &|number| format!("a/z{number}"),
        ];
        for (at, form) in forms.into_iter().enumerate() {
            for count in [0, 1, 999, 1_000, 1_001, 3_000] {
                let mut names: Vec<String> = (0..count).map(form).collect();
                names.sort();
                let others = ["a0", "aa/00", "b/1", "0"].map(str::to_owned);
                let all: Vec<String> = names.iter().cloned().chain(others).collect();
                assert!(listed(&all, "a") == names, "form {at}, {count} names");
            }
        }
    }

    #[test]
    fn a_listing_that_begins_too_early_gives_only_the_part() {
        let found = futures::executor::block_on(async {
            let store = InMemory::new();
            for name in ["a/1", "a/2", "a/3", "a/4", "a/5"] {
                store.put(&Path::from(name), PutPayload::new()).await.unwrap();
            }
            let part = (Path::from("a/2"), Some(Path::from("a/4")));
            inside(store.list(None), &part).await.unwrap()
        });
        let found: Vec<_> = found.into_iter().map(|object| object.name).collect();
        assert_eq!(found, ["a/3", "a/4"]);
    }

    #[test]
    fn names_at_bounds_are_in_one_part() {
        let mut names: Vec<String> = (0..=255).map(|number| format!("a/{number:02x}")).collect();
        names.extend((0..3_000).map(|number| format!("a/{:02x}-{number}", number % 256)));
        names.sort();
        assert!(listed(&names, "a") == names);
    }

    fn page(until: &str) -> Vec<ObjectInfo> {
        let first = (0..PAGE - 1).map(|number| format!("a/00/{number:04}"));
        first.chain([until.to_owned()]).map(|name| ObjectInfo { name, size: 0 }).collect()
    }

    fn bounds(until: &str) -> Option<Vec<String>> {
        let parts = parts(Some(&Path::from("a")), &page(until))?;
        Some(parts.into_iter().map(|(after, _)| after.into()).collect())
    }

    #[test]
    fn there_are_as_many_parts_as_pages_are_expected() {
        // A third of all names was seen: 170 of 256 positions are left, from 0x56 on.
        assert_eq!(bounds("a/55/1").unwrap(), ["a/55/1", "a/8e", "a/c7"]);
        assert_eq!(bounds("a/ff/1").unwrap(), ["a/ff/1"]);
        assert_eq!(bounds("a/00/9").unwrap().len(), MAX_PARTS);
        assert_eq!(bounds("a/zz/1"), None);
        let mut unsorted = page("a/55/1");
        unsorted.swap(3, 4);
        assert!(parts(Some(&Path::from("a")), &unsorted).is_none());
    }
}
