//! Owns the catalog: all listings merged, named and sorted, with the names that lead back to their sources.
//! It is pure: it starts nothing, asks nobody, and gives the same bytes for the same listings whatever their order.

pub mod listing;
pub mod search;
pub mod signature;
pub mod toolset;

use std::collections::HashMap;
use std::sync::Arc;

pub use listing::{Listing, Rejected, ServerNote};
pub use toolset::{Entry, Toolset, Withheld};

use crate::name::{ExposedName, SourceId};

/// All toolsets, sorted by provider, then id.
#[derive(Debug)]
pub struct Catalog {
    pub toolsets: Vec<Arc<Toolset>>,
    /// Where each exposed name leads: the toolset's and the entry's position.
    names: HashMap<ExposedName, (u32, u32)>,
    /// A content hash: equal for equal catalogs, whatever the order in which sources came.
    pub revision: String,
}
