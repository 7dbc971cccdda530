//! Prunes beside somebody who may add objects and lies about where chunks are: in the footer of a
//! container, in an index run, in a mark. A write-only client can, or whoever has the storage of a
//! plain repository. Nothing that a snapshot needs is deleted on such a word.

use std::sync::Arc;

use onefold_backend::Objects;
use onefold_container::{Directory, container_id, container_name};
use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::prune::{self, Unused};
use onefold_store::{Cancel, Progress, Snapshot};
use onefold_testkit::random;

use crate::common::picture::Picture;
use crate::common::sealed::Forger;
use crate::common::{back_up, expect_clean, in_memory, names, open, restored, small_chunks, write};

/// A repository with a snapshot, and what lies in it.
struct Scene {
    objects: Arc<dyn Objects>,
    forger: Forger,
    snapshot: Snapshot,
    picture: Picture,
    containers: Vec<ObjectId>,
    chunks: Vec<(Fingerprint, u64)>,
}

impl Scene {
    fn new() -> Self {
        let source = tempfile::tempdir().unwrap();
        write(source.path().join("large"), random(1, 400_000));
        write(source.path().join("sub/small"), "small");
        (0..50).for_each(|n| write(source.path().join(format!("many/{n}")), n.to_string()));
        let (objects, repository) = in_memory(small_chunks());
        let (_, snapshot) = back_up(&repository, source.path());
        let envelope = Envelope::plain(repository.id());
        let containers: Vec<ObjectId> = names(&*objects, "containers/")
            .iter()
            .map(|name| container_id(name).unwrap())
            .collect();
        let mut chunks = Vec::new();
        for id in &containers {
            let size = objects.size(&container_name(*id)).unwrap();
            let directory = Directory::read(&*objects, &envelope, *id, size).unwrap();
            chunks.extend(directory.chunks.iter().map(|one| (one.fingerprint, u64::from(one.len))));
        }
        chunks.sort();
        let forger = Forger::new(&objects, &repository);
        let picture = Picture::of(source.path());
        Self { objects, forger, snapshot, picture, containers, chunks }
    }

    /// A container of zeros whose footer says that it has all chunks.
    fn lying_container(&self) -> ObjectId {
        let len = self.chunks.iter().map(|(_, len)| len).sum::<u64>();
        let zeros = vec![0; len as usize];
        container_id(&self.forger.group(0, &zeros, len, &self.chunks)).unwrap()
    }

    /// A run that says that all chunks are in `container`, one a slot.
    fn lying_run(&self, container: ObjectId) {
        let mut body = Vec::new();
        body.put_varint(1);
        body.extend_from_slice(container.as_bytes());
        body.put_varint(self.chunks.len() as u64);
        for (slot, (fingerprint, len)) in (0..).zip(&self.chunks) {
            body.extend_from_slice(fingerprint.as_bytes());
            [0, slot, *len as u32].into_iter().for_each(|number| body.put_u32(number));
        }
        self.forger.object("index/", Kind::Run, ObjectId::random(), &body);
    }

    /// A mark that condemns all containers but those of the forger.
    fn mark(&self) {
        let mut body = Vec::new();
        body.put_varint(self.containers.len() as u64);
        self.containers.iter().for_each(|id| body.extend_from_slice(id.as_bytes()));
        self.forger.object("marks/", Kind::Mark, ObjectId::random(), &body);
    }

    /// Prunes twice, as eagerly as can be, after which everything is still there.
    fn prune_loses_nothing(&self) {
        for _ in 0..2 {
            let options =
                prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
            let repository = open(&self.objects);
            prune::prune(&repository, &options, &Progress::default(), &Cancel::default()).unwrap();
            let restored = restored(&open(&self.objects), &self.snapshot);
            restored.and_then(|restored| restored.expect(&self.picture)).unwrap();
        }
    }
}

#[test]
fn the_scene_is_sound_where_nobody_lies() {
    let scene = Scene::new();
    scene.prune_loses_nothing();
    expect_clean(&open(&scene.objects)).unwrap();
}

#[test]
fn a_footer_that_lies_deletes_nothing() {
    let scene = Scene::new();
    scene.lying_container();
    scene.prune_loses_nothing();
}

#[test]
fn a_run_and_a_footer_that_lie_delete_nothing() {
    let scene = Scene::new();
    let liar = scene.lying_container();
    scene.lying_run(liar);
    scene.prune_loses_nothing();
}

#[test]
fn a_mark_deletes_nothing() {
    let scene = Scene::new();
    scene.mark();
    scene.prune_loses_nothing();
    expect_clean(&open(&scene.objects)).unwrap();
}

#[test]
fn a_mark_a_run_and_a_footer_that_lie_delete_nothing() {
    for has_run in [false, true] {
        let scene = Scene::new();
        let liar = scene.lying_container();
        if has_run {
            scene.lying_run(liar);
        }
        scene.mark();
        scene.prune_loses_nothing();
    }
}
