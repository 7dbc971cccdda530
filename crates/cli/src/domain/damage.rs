//! Damage of containers that scrubs of any gateway found, as it concerns the volumes of one shard.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use onefold_cluster::{Gateway, OpenShard, wall_clock};
use onefold_volume::{BadPage, Scrubbed};

use crate::count::count;
use crate::service::answer::{Answer, ShownUnanswered};
use crate::service::request::{self, Offers};

/// `answer`, with what scrubs found of the volumes of `shard`, if it is about damage.
pub(super) fn told(
    mut answer: Answer,
    gateway: &Gateway,
    shard: &OpenShard,
    offers: &dyn Offers,
) -> Result<Answer> {
    if !matches!(answer, Answer::Checked(_) | Answer::Sums(_)) {
        return Ok(answer);
    }
    let found = gateway.damage_in(shard, &|| offers.goes_on())?;
    ensure!(
        !found.is_stopped,
        "the server is stopping, and stopped the look at damaged containers"
    );
    match &mut answer {
        Answer::Checked(checked) => {
            checked.problems.extend(problems(&found));
            let unanswered = found.unanswered.map(ShownUnanswered::from);
            checked.problems.extend(unanswered.map(|those| those.line()));
            checked.more += found.more;
        }
        Answer::Sums(sums) => sums.damaged_volumes = lost_volumes(&found).into_keys().collect(),
        _ => {}
    }
    Ok(answer)
}

/// Scrubs the volumes of `shard`, and notes damaged containers for all gateways.
pub(super) fn scrub(gateway: &Gateway, shard: &OpenShard, offers: &dyn Offers) -> Result<Answer> {
    let found = request::scrub(shard.pool(), offers)?;
    let noted = gateway.note_scrubbed(&found, wall_clock(), &|_| offers.goes_on());
    noted.context("damaged containers could not be noted for other gateways: repeat the scrub")?;
    Ok(Answer::Scrubbed(found.into()))
}

/// The volumes with lost pages, how many of their blocks these are, and the first.
pub(crate) fn lost_volumes(found: &Scrubbed) -> BTreeMap<String, (u64, u64)> {
    let mut volumes = BTreeMap::new();
    note(&mut volumes, &found.bad);
    volumes
}

fn note<'a>(
    volumes: &mut BTreeMap<String, (u64, u64)>,
    bad: impl IntoIterator<Item = &'a BadPage>,
) {
    for (volume, block) in bad.into_iter().flat_map(|page| &page.blocks) {
        let (blocks, first) = volumes.entry(volume.clone()).or_insert((0, *block));
        *blocks += 1;
        *first = (*first).min(*block);
    }
}

/// A line for each damaged container.
fn problems(found: &Scrubbed) -> Vec<String> {
    let mut containers: BTreeMap<&str, Vec<&BadPage>> = BTreeMap::new();
    for page in &found.bad {
        containers.entry(&page.container).or_default().push(page);
    }
    let line = |(container, pages): (&str, Vec<&BadPage>)| {
        let mut volumes = BTreeMap::new();
        note(&mut volumes, pages.iter().copied());
        let volume = |(name, (blocks, first)): (String, (u64, u64))| {
            let blocks = count(blocks, "block", "blocks");
            format!("volume '{name}': {blocks}, the first {first}")
        };
        let volumes: Vec<String> = volumes.into_iter().map(volume).collect();
        let lost = count(pages.len() as u64, "page is lost", "pages are lost");
        format!("{container}: {lost}, {}: {}", pages[0].problem, volumes.join("; "))
    };
    containers.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_containers_volumes_and_blocks() {
        let page = |slot, blocks: &[(&str, u64)]| BadPage {
            container: "container 7".into(),
            shared: None,
            slot,
            problem: "it has another fingerprint".into(),
            blocks: blocks.iter().map(|(name, block)| ((*name).into(), *block)).collect(),
            more_blocks: 0,
        };
        let bad = vec![page(3, &[("disk", 9), ("copy", 9)]), page(4, &[("disk", 2)])];
        let found = Scrubbed { bad, ..Scrubbed::default() };
        assert_eq!(
            problems(&found),
            [
                "container 7: 2 pages are lost, it has another fingerprint: volume 'copy': 1 block, the first 9; \
              volume 'disk': 2 blocks, the first 2"
            ]
        );
        assert_eq!(lost_volumes(&found)["disk"], (2, 2));
    }
}
