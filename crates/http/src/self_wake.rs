//! Connections whose task wakes itself. The service of a connection and the reading of its socket are one task, so each
//! body of a request wakes the task while it runs. A runtime of several threads then puts the task at the end of its
//! queue and wakes another thread to help, which takes the connection over: this costs some 60 µs for each call.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Most polls in a row before other tasks have their turn.
const MAX_TURNS: u32 = 8;

/// A future that is polled again at once if it woke itself.
#[derive(Debug)]
pub(super) struct SelfWaking<F> {
    future: Pin<Box<F>>,
    wakes: Option<Arc<Wakes>>,
}

/// The wakes of one task.
#[derive(Debug)]
struct Wakes {
    task: Waker,
    /// True while the future is polled.
    is_polled: AtomicBool,
    /// True if it is to be polled once more.
    is_woken: AtomicBool,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.swap(true, Ordering::SeqCst);
        // The polling task reads `is_woken` after it has cleared `is_polled`, so no wake is lost.
        if !self.is_polled.load(Ordering::SeqCst) {
            self.task.wake_by_ref();
        }
    }
}

impl<F: Future> SelfWaking<F> {
    pub(super) fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            wakes: None,
        }
    }
}

impl<F: Future> Future for SelfWaking<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let task = context.waker();
        let known = self.wakes.take().filter(|wakes| wakes.task.will_wake(task));
        let wakes = known.unwrap_or_else(|| {
            Arc::new(Wakes {
                task: task.clone(),
                is_polled: AtomicBool::new(false),
                is_woken: AtomicBool::new(false),
            })
        });
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        for _ in 0..MAX_TURNS {
            // `swap` also reads, so that what was done before the wake is visible here.
            wakes.is_woken.swap(false, Ordering::SeqCst);
            wakes.is_polled.store(true, Ordering::SeqCst);
            let polled = self.future.as_mut().poll(&mut context);
            wakes.is_polled.store(false, Ordering::SeqCst);
            if polled.is_ready() {
                return polled;
            }
            if !wakes.is_woken.load(Ordering::SeqCst) {
                self.wakes = Some(wakes);
                return Poll::Pending;
            }
        }
        task.wake_by_ref();
        self.wakes = Some(wakes);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::atomic::AtomicU32};

    use super::*;

    /// A waker that counts how often it is woken.
    #[derive(Debug, Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls, once, a future that wakes itself in each of its first `wakes` polls and is ready in the next one. Returns
    /// the number of wakes that the task got.
    fn polled(wakes: u32) -> (Poll<()>, u32) {
        let mut left = wakes;
        let mut future = SelfWaking::new(poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&task));
        (polled, count.0.load(Ordering::SeqCst))
    }

    #[test]
    fn a_future_that_wakes_itself_goes_on_at_once() {
        assert_eq!(polled(MAX_TURNS - 1), (Poll::Ready(()), 0));
    }

    #[test]
    fn others_have_their_turn() {
        assert_eq!(polled(MAX_TURNS), (Poll::Pending, 1));
    }

    #[test]
    fn no_wake_of_another_thread_is_lost() {
        const PIECES: u32 = 20_000;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .expect("a runtime");
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let reader = runtime.spawn(SelfWaking::new(async move {
            let mut pieces = 0;
            while receiver.recv().await.is_some() {
                pieces += 1;
            }
            pieces
        }));
        for _ in 0..PIECES {
            sender.blocking_send(()).expect("a reader");
        }
        drop(sender);
        assert_eq!(runtime.block_on(reader).expect("the reader's end"), PIECES);
    }

    #[test]
    fn a_wake_from_elsewhere_reaches_the_task() {
        let mut given = None;
        let mut future = SelfWaking::new(poll_fn(|context| {
            given = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        assert!(
            Pin::new(&mut future)
                .poll(&mut Context::from_waker(&task))
                .is_pending()
        );
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        drop(future);
        given.expect("a waker").wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
