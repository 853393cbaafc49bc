//! Owns when a running source is listed by its actor, and what becomes of what was read.
//! It reads no list itself.

use tokio::sync::oneshot;

use super::SourceEvent;
use super::actor::{Actor, Inner, Phase};
use super::relist::{self, Read};
use crate::call::CallError;

impl Actor {
    /// Reads the list if it must be read and is not being read.
    pub(super) fn look_after_list(&mut self) {
        let Phase::Ready(ready) = &mut self.phase else { return };
        if !ready.begin_list() {
            return;
        }
        let (link, note, start_timeout) = (ready.link.clone(), ready.note.clone(), self.config.start_timeout);
        let (inner, generation, known) = (self.inner.clone(), self.generation, self.digest.is_some());
        self.around.tracker.spawn(async move {
            let tell = async |read| drop(inner.send(Inner::Listed(generation, read)).await);
            relist::read(&link, note, start_timeout, known, tell).await;
        });
    }

    pub(super) async fn listed(&mut self, read: Result<Box<Read>, CallError>) {
        let Phase::Ready(ready) = &mut self.phase else { return };
        let outcome = match read {
            Ok(read) => {
                let changed = self.digest.as_ref() != Some(&read.listing.digest);
                ready.listed(&read, changed);
                if changed {
                    let listing = Box::new(read.listing);
                    self.digest = Some(listing.digest.clone());
                    let (seen, in_force) = oneshot::channel();
                    let (source, edition) = (self.config.id.clone(), self.around.edition);
                    let event = SourceEvent::Listed { source, edition, listing, seen };
                    if self.around.events.send(event).await.is_ok() {
                        let _ = in_force.await;
                    }
                }
                Ok(())
            }
            Err(error) if self.digest.is_none() => {
                // Without any list it is of no use: told as a failure, and tried again as one.
                ready.link.stop.cancel();
                self.generation += 1;
                return self.failed(error);
            }
            Err(error) => {
                ready.not_listed(&error);
                Err(error)
            }
        };
        let Phase::Ready(ready) = &self.phase else { return };
        self.say(ready.state());
        self.waiting.answer(&outcome);
    }
}
