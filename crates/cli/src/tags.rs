//! Tags as users name them: `a,b` is two tags, as restic has it.

use std::str::FromStr;

/// Tags separated by commas, none of them empty; or nothing, which stands for snapshots without tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagList(Vec<String>);

impl TagList {
    /// The tags of the list.
    pub(crate) fn tags(&self) -> &[String] {
        &self.0
    }

    /// A list that names a tag: what a new snapshot can be given.
    pub(crate) fn some(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("a tag cannot be empty".into()),
            text => text.parse(),
        }
    }

    /// Whether `tags` fits one of `lists`; true if there is no list.
    pub(crate) fn any_fits(lists: &[Self], tags: &[String]) -> bool {
        lists.is_empty() || lists.iter().any(|list| list.fits(tags))
    }

    fn fits(&self, tags: &[String]) -> bool {
        match &self.0[..] {
            [] => tags.is_empty(),
            all => all.iter().all(|tag| tags.contains(tag)),
        }
    }
}

impl FromStr for TagList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let tags: Vec<String> = text.split(',').map(str::to_owned).collect();
        match tags.iter().any(String::is_empty) {
            true => Err("a tag is empty; expected words separated by single commas".into()),
            false => Ok(Self(tags)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_separates_tags_and_none_is_empty() {
        let list: TagList = "a,b".parse().unwrap();
        assert_eq!(list.tags(), ["a", "b"]);
        for bad in [",", "a,", ",a", "a,,b"] {
            assert!(bad.parse::<TagList>().is_err() && TagList::some(bad).is_err(), "{bad:?}");
        }
        assert!(TagList::some("").is_err());
        let untagged = ["".parse().unwrap()];
        assert!(TagList::any_fits(&untagged, &[]) && !TagList::any_fits(&untagged, &["a".into()]));
        let lists = ["a,b", "c"].map(|text| text.parse().unwrap());
        let has = |tags: &[&str]| {
            let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
            TagList::any_fits(&lists, &tags)
        };
        assert!(has(&["c"]) && has(&["b", "a"]) && !has(&["a"]) && !has(&[]));
        assert!(TagList::any_fits(&[], &[]));
    }
}
