//! Merging of the statements of all rules about ranges into the result for each range, including its ports.

use std::collections::BTreeMap;

use crate::Cidr;

/// The statements of rules about one range and port. Merging is commutative, associative and idempotent.
pub(super) trait Merge: Clone + Default {
    /// Adds the statements of `other`.
    fn merge(&mut self, other: &Self);
}

/// The statements about ranges, before anything is inherited.
#[derive(Debug)]
pub(super) struct Ranges<M>(BTreeMap<Cidr, ByPort<M>>);

/// The statements about one range: for every port, and for some.
#[derive(Clone, Debug, Default)]
pub(super) struct ByPort<M> {
    /// For ports without a value of their own.
    pub(super) any: M,
    /// For single ports.
    pub(super) ports: BTreeMap<u16, M>,
}

impl<M: Merge> Ranges<M> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Says `statement` about `ports` of `range`; about all ports where the list is empty.
    pub(super) fn say(&mut self, range: Cidr, ports: &[u16], statement: &M) {
        let own = self.0.entry(range).or_default();
        if ports.is_empty() {
            own.any.merge(statement);
        }
        for port in ports {
            own.ports.entry(*port).or_default().merge(statement);
        }
    }

    /// Calls `emit` for each range with everything that covers it.
    ///
    /// A range sorts before all it contains, so the ranges around the current one are a stack, and each
    /// range merges with its innermost container only.
    pub(super) fn try_each<E>(
        self,
        mut emit: impl FnMut(Cidr, &ByPort<M>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut around: Vec<(Cidr, ByPort<M>)> = Vec::new();
        for (range, own) in self.0 {
            while around.pop_if(|(outer, _)| !covers(outer, &range)).is_some() {}
            let whole = match around.last() {
                Some((_, outer)) => own.within(outer),
                None => own.within(&ByPort::default()),
            };
            emit(range, &whole)?;
            around.push((range, whole));
        }
        Ok(())
    }
}

impl<M: Merge> ByPort<M> {
    fn within(self, outer: &Self) -> Self {
        let mut ports = outer.ports.clone();
        for value in ports.values_mut() {
            value.merge(&self.any);
        }
        let mut any = self.any;
        any.merge(&outer.any);
        for (port, own) in self.ports {
            ports.entry(port).or_insert_with(|| any.clone()).merge(&own);
        }
        Self { any, ports }
    }
}

fn covers(outer: &Cidr, inner: &Cidr) -> bool {
    outer.prefix() <= inner.prefix() && outer.contains(inner.address())
}
