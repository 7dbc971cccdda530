//! A connection from its first byte to its end.

use std::sync::Arc;

use tokio::time::timeout;

use crate::export::Offered;
use crate::handshake::handshake;
use crate::places::{Handshake, Place};
use crate::server::Shared;
use crate::stream::Stream;
use crate::transmission::transmit;
use crate::{Address, Event, NbdError};

/// Serves the client at `peer` and reports the end of the connection.
pub(crate) async fn converse(
    stream: Box<dyn Stream>,
    peer: Address,
    begun: Handshake,
    mut place: Place,
    shared: Arc<Shared>,
) {
    let mut export = None;
    let ended = serve(stream, &peer, begun, &mut place, &shared, &mut export).await;
    let (name, error) = (export.as_ref().map(|one| one.name.as_str()), ended.as_ref().err());
    (shared.on_event)(Event::Ended { peer: &peer, name, error });
    // a server that ends waits until this is reported
    drop(place);
}

/// Also sets the export, once the client has chosen it.
async fn serve(
    stream: Box<dyn Stream>,
    peer: &Address,
    begun: Handshake,
    place: &mut Place,
    shared: &Shared,
    export: &mut Option<Arc<Offered>>,
) -> Result<(), NbdError> {
    let limit = shared.limits.handshake;
    let mut closing = shared.closing();
    let agreed = tokio::select! {
        agreed = timeout(limit, handshake(stream, place, shared)) => agreed,
        () = begun.is_displaced() => {
            return Err(NbdError::Displaced { most: shared.limits.handshakes });
        }
        () = closing.wait() => return Ok(()),
    };
    drop(begun);
    let what = if matches!(place, Place::Awaited) { "waiting its turn" } else { "the handshake" };
    let Some((stream, agreed)) = agreed.map_err(|_| NbdError::TimedOut { what, limit })?? else {
        return Ok(());
    };
    (shared.on_event)(Event::Served {
        peer,
        name: &agreed.export.name,
        is_encrypted: agreed.is_encrypted,
    });
    *export = Some(agreed.export.clone());
    transmit(stream, agreed, peer, shared).await
}
