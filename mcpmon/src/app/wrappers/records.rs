//! Records of wrappers, on separate connections: only a sender that waits for nothing else waits for the disk.

use mcpmon_model::{HeldCall, PinKey, ProcessRef, Recent};
use mcpmon_session::{
    clock,
    protocol::{Hear, Say},
};
use mcpmon_store::{SessionMember, StoreEntry, StoredEvent, json};
use tokio::{io::BufReader, net::UnixStream};

use super::{
    FLUSH, Wrappers,
    lines::Lines,
    service::{answer, misunderstood},
};

/// Longest line, bytes, that is handled by the thread that checks calls. Handling it takes less time than handing it to
/// another thread.
const SHORT: usize = 8 << 10;

/// Stores the records of `member`, until it leaves.
pub(super) async fn take(wrappers: &Wrappers, stream: &mut BufReader<UnixStream>, member: &SessionMember) {
    let mut lines = Lines::new(wrappers, member);
    while let Some(line) = lines.next(stream).await {
        let heard = match line.len() <= SHORT {
            true => match read(wrappers, line, member) {
                Ok(entries) if entries.is_empty() => Hear::Done, // all entries were for the session
                Ok(entries) => in_the_background(wrappers, move |wrappers| keep(wrappers, entries)).await,
                Err(refused) => refused,
            },
            false => {
                let (member, line) = (member.clone(), lines.take());
                let work = move |wrappers: &Wrappers| match read(wrappers, &line, &member) {
                    Ok(entries) => keep(wrappers, entries),
                    Err(refused) => refused,
                };
                in_the_background(wrappers, work).await
            }
        };
        if answer(stream, &heard).await.is_err() {
            return;
        }
    }
}

async fn in_the_background(
    wrappers: &Wrappers,
    work: impl FnOnce(&Wrappers) -> Hear + Send + 'static,
) -> Hear {
    let wrappers = wrappers.clone();
    let done = tokio::task::spawn_blocking(move || work(&wrappers)).await;
    done.unwrap_or_else(|error| Hear::Unkept(error.to_string()))
}

/// Parses a line and returns the entries for the store. The recent calls in it are added to the session.
fn read(wrappers: &Wrappers, line: &[u8], member: &SessionMember) -> Result<Vec<StoreEntry>, Hear> {
    let refused = |cause: &str| Hear::Error(cause.to_owned());
    let say = serde_json::from_slice::<Say>(line).map_err(|error| misunderstood(&error))?;
    let Say::Keep {
        events,
        rescued,
        definitions,
        forget,
        held,
        released,
        recent,
    } = say
    else {
        return Err(refused("here is only said what is to be kept"));
    };
    let is_own = |recent: &Recent| *recent.server() == member.identity.server && recent.is_bounded();
    let mut entries = Vec::with_capacity(events.len());
    let told = events
        .into_iter()
        .map(|fields| (fields, StoreEntry::Event as fn(StoredEvent) -> StoreEntry));
    let rescued = rescued
        .into_iter()
        .map(|fields| (fields, StoreEntry::Rescued as _));
    for (fields, entry) in told.chain(rescued) {
        let mut event = json::from_json(fields).ok_or_else(|| refused("one of the events is none"))?;
        // A wrapper records for its own user, who sees these events.
        let wrapper = || ProcessRef {
            pid: member.process.pid,
            ..ProcessRef::default()
        };
        event.process.get_or_insert_with(wrapper).uid = Some(member.identity.uid);
        entries.push(entry(event));
    }
    entries.extend(definitions.into_iter().map(StoreEntry::Definition));
    entries.extend(forget.into_iter().map(StoreEntry::ForgetDefinition));
    if !held.iter().all(|call| is_held_by(call, member)) {
        return Err(refused("a wrapper holds calls of its own server"));
    }
    entries.extend(
        held.into_iter()
            .map(|call| StoreEntry::HoldCall(member.process, Box::new(call))),
    );
    let released = released.into_iter();
    entries.extend(released.map(|id| StoreEntry::ReleaseCall(member.identity.clone(), id)));
    if !recent.iter().all(is_own) || !entries.iter().all(|entry| is_of(entry, &member.identity)) {
        return Err(refused("a wrapper speaks for its own server"));
    }
    wrappers.0.sessions.take(clock::now(), member, recent);
    Ok(entries)
}

/// Stores the entries. Acknowledged entries are in the store, and survive this process. The wrapper keeps the others,
/// so that an entry may be stored twice but is not lost.
fn keep(wrappers: &Wrappers, entries: Vec<StoreEntry>) -> Hear {
    match wrappers.0.recorder.put_all(entries, FLUSH) {
        Ok(()) => Hear::Done,
        Err(unkept) => Hear::Unkept(format!("{unkept}; see `mcpmon status`")),
    }
}

/// Returns whether this wrapper's session holds the call.
fn is_held_by(call: &HeldCall, member: &SessionMember) -> bool {
    call.identity == member.identity && call.session.as_ref() == Some(&member.session)
}

/// Returns whether a wrapper of this server may report this entry.
fn is_of(entry: &StoreEntry, identity: &PinKey) -> bool {
    match entry {
        StoreEntry::Definition(record) => record.key.identity == *identity,
        StoreEntry::ForgetDefinition(key) => key.identity == *identity,
        StoreEntry::ReleaseCall(of, _) => of == identity,
        StoreEntry::HoldCall(_, call) => call.identity == *identity,
        // Rescued from a wrapper that was killed, which may have been another server's.
        StoreEntry::Rescued(_) => true,
        StoreEntry::Event(event) => event.server_id.as_deref() == Some(identity.server.as_str()),
        StoreEntry::Leave(..)
        | StoreEntry::PutPin(_)
        | StoreEntry::DeletePins(_)
        | StoreEntry::DeletePinSet(..)
        | StoreEntry::Declare(_)
        | StoreEntry::Recent(..)
        | StoreEntry::Unread(..)
        | StoreEntry::ForgetRunning
        | StoreEntry::Watch(_)
        | StoreEntry::Unposted(_)
        | StoreEntry::PolicyChanged
        | StoreEntry::Body(_)
        | StoreEntry::ShortenBodies(_) => false,
    }
}
