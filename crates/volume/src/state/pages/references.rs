//! How references to pages are counted: at once, or beside the container until its nodes are here.

use crate::ids::Handle;
use crate::state::container::Change;
use crate::state::nodes::Missing;
use crate::state::pages::Pages;
use crate::state::pending::Pending;

impl Pages {
    /// As many more segment entries have the page, which is where it says.
    pub(super) fn gain_times(&mut self, page: Handle, times: u32) {
        if let Some(container) = self.all.get_mut(page.container())
            && container.is_damaged
        {
            container.lost_references += u64::from(times);
        }
        self.add(page, times.into());
    }

    /// As many less have it.
    pub(super) fn release_times(&mut self, page: Handle, times: u32) {
        if let Some(container) = self.all.get_mut(page.container())
            && container.is_damaged
        {
            // of one that could not get its footer when the pool was opened nobody counted them
            container.lost_references = container.lost_references.saturating_sub(times.into());
            if container.lost_references == 0 {
                self.maybe_dead.push(page.container());
            }
        }
        self.add(page, -i64::from(times));
    }

    /// Adds to the references of a page, at once or, where they are not in memory, once they are.
    pub(super) fn add(&mut self, page: Handle, times: i64) {
        let number = page.container();
        let Some(container) = self.all.get_mut(number) else { return };
        if !container.slots.has(page.slot()) {
            return;
        }
        if let Some(watched) = &mut self.watched {
            watched.set(page);
        }
        let added = self.settle_node(number, Pending::node_of(page.slot())).and_then(|()| {
            let container = self.all.get_mut(number).expect("just found");
            container.add(page.slot(), times, &mut self.nodes)
        });
        match added {
            Ok(change) => self.note_change(page, &change),
            Err(Missing(_)) => {
                let container = self.all.get_mut(number).expect("just found");
                // more than an i32 is as many additions
                let mut left = times;
                while left != 0 {
                    let some = left.clamp(i32::MIN.into(), i32::MAX.into());
                    container.slots.pending.push(page.slot(), some as i32);
                    (self.pending, left) = (self.pending + 1, left - some);
                }
                if container.slots.pending.len() >= container.live.max(1) as usize {
                    self.unsettled.insert(number);
                }
            }
        }
    }

    fn note_change(&mut self, page: Handle, change: &Change) {
        if *change != Change::LetGo {
            return;
        }
        let container = self.all.get_mut(page.container()).expect("its page was there");
        if self.bad.contains(&page) {
            // nobody has to move it any more
            container.is_stuck = false;
        }
        if container.live == 0 {
            self.maybe_dead.push(page.container());
        }
    }

    /// Adds what is pending beside a node of container `number`, unless the node is not in memory.
    fn settle_node(&mut self, number: u32, node: u32) -> Result<(), Missing> {
        let Some(container) = self.all.get_mut(number) else { return Ok(()) };
        if container.slots.pending.is_empty() {
            return Ok(());
        }
        self.nodes.get(container.slots.references[node as usize])?;
        let before = container.slots.pending.len();
        let taken = container.slots.pending.take(node);
        let (left, is_all) = (container.slots.pending.len(), container.slots.pending.is_empty());
        self.pending -= before - left;
        for (slot, times) in taken {
            let container = self.all.get_mut(number).expect("just found");
            let change = container.add(slot, times, &mut self.nodes)?;
            self.note_change(Handle::new(number, slot), &change);
        }
        if is_all {
            self.unsettled.remove(&number);
            // it may have been dead but for what was pending
            self.maybe_dead.push(number);
        }
        Ok(())
    }

    /// Adds what is pending beside container `number` and whose nodes are in memory.
    ///
    /// # Errors
    /// The first node that is not.
    pub(crate) fn settle(&mut self, number: u32) -> Result<(), Missing> {
        let Some(container) = self.all.get(number) else { return Ok(()) };
        let nodes: Vec<u32> = container.slots.pending.nodes().collect();
        let settled = nodes.into_iter().map(|node| self.settle_node(number, node));
        let settled: Vec<Result<(), Missing>> = settled.collect();
        settled.into_iter().collect()
    }

    /// Nobody can tell how often pages of container `number` are referred to: it is kept for good.
    pub(crate) fn give_up(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            self.pending -= std::mem::take(&mut container.slots.pending).len();
            // what nobody lets go of any more
            container.lost_references += 1;
            container.is_stuck = true;
        }
        self.unsettled.remove(&number);
    }

    /// A container beside which so much is pending that it may be dead, or, if `most` is exceeded in
    /// all, the one beside which most is.
    pub(crate) fn to_settle(&self, most: usize) -> Option<u32> {
        let with_most = || {
            let all = self.all.iter().max_by_key(|(_, one)| one.slots.pending.len());
            all.map(|(number, _)| number)
        };
        match self.unsettled.first() {
            Some(first) => Some(*first),
            None if self.pending > most => with_most(),
            None => None,
        }
    }
}
