//! Records of single users, for those who may not read the store.

use std::sync::Arc;

use mcpmon_http::shares::{QuotaOwner, QuotaPermit};
use mcpmon_store::StoreReader;

use super::{FLUSH, Wrappers, lock};

impl Wrappers {
    /// Returns the records of `uid` as a database, with the permit for it, which is kept until they are sent. `owner` is the
    /// user to whom the work is counted.
    ///
    /// # Errors
    /// Returns the obstacle, as a sentence.
    pub(crate) async fn own_records(&self, uid: u32, owner: u32) -> Result<(QuotaPermit, Vec<u8>), String> {
        let place = self.0.copies.take(QuotaOwner::User(owner));
        let place =
            place.map_err(|_scarce| "other copies of records are being made; try again".to_owned())?;
        let shared = Arc::clone(&self.0);
        let copied = tokio::task::spawn_blocking(move || {
            // Records that wrappers sent a moment ago are included.
            if let Err(unsettled) = shared.recorder.flush(FLUSH) {
                tracing::warn!(%unsettled, "the latest records are not in the store yet");
            }
            let path = lock(&shared.store).path().to_owned();
            let reader = StoreReader::open(&path).map_err(|error| error.to_string())?;
            let bytes = reader.own_records(uid).map_err(|error| error.to_string())?;
            Ok((place, bytes))
        });
        copied.await.map_err(|error| error.to_string())?
    }
}
