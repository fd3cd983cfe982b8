//! (Interface; see the module's owner.)
