//! Fair-share quotas: one owner never takes more than is left for the others.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Number of refusals in [`WHILE`] that are recorded.
const OFTEN: u32 = 10;
/// The period in which refusals are counted, and recorded once.
const WHILE: Duration = Duration::from_secs(60);

/// The owner of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaOwner {
    /// A user of this host.
    User(u32),
    /// A peer on another host, or on this one if the kernel does not report the user.
    Host(IpAddr),
}

impl QuotaOwner {
    /// The owner of resources whose user is unknown.
    pub(super) const NOBODY: Self = Self::Host(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// Returns the owner for an address; for IPv6, it is the network from which a host chooses its own
    /// address.
    pub(super) fn at(address: IpAddr) -> Self {
        Self::Host(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl fmt::Display for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Host(IpAddr::V6(network)) => write!(f, "{network}/64"),
            Self::Host(address) => write!(f, "{address}"),
        }
    }
}

/// The reason why a quota is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// All of them are taken, and there are this many.
    All(usize),
    /// The owner has this many, and may not take more.
    Own(QuotaOwner, usize),
}

/// Returns whether an owner that has `own` of `most`, of which `all` are taken, may have one more: no owner
/// has more than are left.
pub(super) const fn may_take(owner: QuotaOwner, own: usize, all: usize, most: usize) -> Result<(), Scarce> {
    may_take_more(owner, own, all, most, 1)
}

const fn may_take_more(
    owner: QuotaOwner,
    own: usize,
    all: usize,
    most: usize,
    more: usize,
) -> Result<(), Scarce> {
    let free = most.saturating_sub(all);
    // Of an odd number, one owner may take the last one.
    if more <= free && own.saturating_add(more) <= free - more + 1 {
        return Ok(());
    }
    Err(match free < more || own == 0 {
        true => Scarce::All(most),
        false => Scarce::Own(owner, own),
    })
}

/// A number of permits, each taken and given back in one step. Clones share them.
#[derive(Clone, Debug)]
pub struct Quota(Arc<QuotaState>);

#[derive(Debug)]
struct QuotaState {
    most: usize,
    bound: OwnerBound,
    taken: Mutex<QuotaUse>,
}

/// The limit for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerBound {
    /// No more than remain for others, and so at most half.
    AsLeft,
    /// At most this many.
    Most(usize),
}

#[derive(Debug, Default)]
struct QuotaUse {
    all: usize,
    of: BTreeMap<QuotaOwner, usize>,
}

/// Some of the permits, given back when dropped.
#[derive(Debug)]
pub struct QuotaPermit {
    shares: Quota,
    owner: QuotaOwner,
    count: usize,
}

impl Quota {
    /// A quota of `most`, of which one owner takes no more than remain for others, and so at most half.
    pub(super) fn new(most: usize) -> Self {
        Self::bounded(most, OwnerBound::AsLeft)
    }

    /// A quota of `most`, of which one owner takes at most `most_of_one`.
    pub fn of_each(most: usize, most_of_one: usize) -> Self {
        Self::bounded(most, OwnerBound::Most(most_of_one))
    }

    fn bounded(most: usize, bound: OwnerBound) -> Self {
        Self(Arc::new(QuotaState {
            most,
            bound,
            taken: Mutex::default(),
        }))
    }

    /// Takes one permit.
    pub fn take(&self, owner: QuotaOwner) -> Result<QuotaPermit, Scarce> {
        self.take_more(owner, 1)
    }

    /// Takes `more` permits, all or none.
    pub(super) fn take_more(&self, owner: QuotaOwner, more: usize) -> Result<QuotaPermit, Scarce> {
        let mut taken = self.lock();
        let own = taken.of.get(&owner).copied().unwrap_or_default();
        match self.0.bound {
            OwnerBound::AsLeft => may_take_more(owner, own, taken.all, self.0.most, more)?,
            OwnerBound::Most(_) if self.0.most - taken.all < more => return Err(Scarce::All(self.0.most)),
            OwnerBound::Most(most) if own + more > most => return Err(Scarce::Own(owner, own)),
            OwnerBound::Most(_) => {}
        }
        taken.all += more;
        *taken.of.entry(owner).or_default() += more;
        Ok(QuotaPermit {
            shares: self.clone(),
            owner,
            count: more,
        })
    }

    fn lock(&self) -> MutexGuard<'_, QuotaUse> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaPermit {
    /// Merges the permits of the same owner into this value.
    pub(super) fn merge(&mut self, mut other: Self) {
        self.count += std::mem::take(&mut other.count);
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut taken = self.shares.lock();
        taken.all -= self.count;
        if let Some(own) = taken.of.get_mut(&self.owner) {
            *own -= self.count;
            if *own == 0 {
                taken.of.remove(&self.owner);
            }
        }
    }
}

/// The refusals for lack of a resource.
#[derive(Debug, Default)]
pub(super) struct QuotaRefusals {
    since: Option<Instant>,
    count: u32,
}

impl QuotaRefusals {
    /// Counts a refusal. Returns the number of refusals when it reaches [`OFTEN`] within [`WHILE`], and `None`
    /// otherwise.
    pub(super) fn count(&mut self, now: Instant) -> Option<u32> {
        if self
            .since
            .is_none_or(|since| now.saturating_duration_since(since) >= WHILE)
        {
            *self = Self {
                since: Some(now),
                count: 0,
            };
        }
        self.count = self.count.saturating_add(1);
        (self.count == OFTEN).then_some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use test_case::test_case;

    use super::*;

    const ONE: QuotaOwner = QuotaOwner::User(1);
    const TWO: QuotaOwner = QuotaOwner::User(2);

    #[test_case("192.0.2.7" => "192.0.2.7")]
    #[test_case("::ffff:192.0.2.7" => "192.0.2.7"; "IPv4 in IPv6")]
    #[test_case("2001:db8:1:2:3:4:5:6" => "2001:db8:1:2::/64"; "a network of IPv6")]
    fn owners(address: &str) -> String {
        QuotaOwner::at(address.parse().expect("an address")).to_string()
    }

    #[test_case(1 => 1)]
    #[test_case(2 => 1)]
    #[test_case(3 => 2)]
    #[test_case(64 => 32)]
    fn alone(most: usize) -> usize {
        let shares = Quota::new(most);
        let parts: Vec<QuotaPermit> = (0..=most).map_while(|_| shares.take(ONE).ok()).collect();
        parts.len()
    }

    #[test]
    fn nobody_has_more_than_are_left_to_others() {
        let shares = Quota::new(8);
        let mut parts: Vec<QuotaPermit> = (0..4).map(|_| shares.take(ONE).expect("half")).collect();
        assert_eq!(shares.take(ONE).err(), Some(Scarce::Own(ONE, 4)));
        parts.extend((0..2).map(|_| shares.take(TWO).expect("half of what is left")));
        assert_eq!(shares.take(TWO).err(), Some(Scarce::Own(TWO, 2)));
        parts.push(shares.take(QuotaOwner::NOBODY).expect("for another one"));
        parts.push(shares.take(QuotaOwner::User(3)).expect("and one more"));
        assert_eq!(shares.take(QuotaOwner::User(4)).err(), Some(Scarce::All(8)));
        parts.clear();
        assert!(shares.take(TWO).is_ok(), "they are given back");
        assert!(shares.lock().of.is_empty());
    }

    #[test]
    fn each_has_so_many_and_all_have_so_many() {
        let shares = Quota::of_each(3, 2);
        let first = shares.take(ONE).expect("the first");
        let second = shares.take(ONE).expect("the second");
        assert_eq!(shares.take(ONE).err(), Some(Scarce::Own(ONE, 2)));
        let other = shares.take(TWO).expect("another one's");
        assert_eq!(shares.take(QuotaOwner::User(3)).err(), Some(Scarce::All(3)));
        drop(first);
        let again = shares.take(QuotaOwner::User(3)).expect("given back");
        assert_eq!(
            shares.take(ONE).err(),
            Some(Scarce::All(3)),
            "taken by another one"
        );
        drop((second, other, again));
        assert!(shares.lock().of.is_empty() && shares.lock().all == 0);
    }

    #[test]
    fn many_at_once_get_no_more_than_there_is() {
        const THREADS: u32 = 16;
        let shares = Quota::of_each(100, 7);
        for _ in 0..200 {
            let start = Barrier::new(THREADS as usize);
            let held: Vec<QuotaPermit> = thread::scope(|scope| {
                let takers: Vec<_> = (0..THREADS)
                    .map(|number| {
                        let (shares, start) = (&shares, &start);
                        scope.spawn(move || {
                            start.wait();
                            shares.take(QuotaOwner::User(number % 2)).ok()
                        })
                    })
                    .collect();
                takers
                    .into_iter()
                    .filter_map(|taker| taker.join().expect("no panic"))
                    .collect()
            });
            assert_eq!(held.len(), 14, "eight asked for each of two users");
        }
    }

    #[test]
    fn several_at_once() {
        let shares = Quota::new(8);
        let mut part = shares.take_more(ONE, 3).expect("less than half");
        assert_eq!(shares.take_more(ONE, 2).err(), Some(Scarce::Own(ONE, 3)));
        part.merge(shares.take(ONE).expect("half"));
        assert_eq!(shares.take_more(TWO, 5).err(), Some(Scarce::All(8)));
        drop(part);
        assert_eq!(shares.lock().all, 0);
    }

    #[test]
    fn what_is_refused_often_is_told_once_in_a_while() {
        let begun = Instant::now();
        let mut refusals = QuotaRefusals::default();
        let told = |refusals: &mut QuotaRefusals, now| {
            (0..25).filter_map(|_| refusals.count(now)).collect::<Vec<_>>()
        };
        assert_eq!(told(&mut refusals, begun), [10]);
        assert_eq!(told(&mut refusals, begun + WHILE / 2), [] as [u32; 0]);
        assert_eq!(told(&mut refusals, begun + WHILE), [10]);
        refusals.count(begun + 2 * WHILE);
        assert_eq!(
            refusals.count(begun + 3 * WHILE),
            None,
            "now and then is not often"
        );
    }
}
