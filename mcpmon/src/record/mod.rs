//! The store: bounded queue, one writer thread, schema migrations, typed queries.
