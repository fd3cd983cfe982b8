//! Secrets and their removal from everything that is stored or shown. (Interface; see the module's owner.)
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A value that is never printed, stored or compared in the open.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret value.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(value)
    }
    /// The value, for the one place that needs it (a request header).
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Replaces secret values, and their common encodings, by `***`.
#[derive(Debug, Default)]
pub struct Redactor {}

impl Redactor {
    /// A redactor for these values.
    #[must_use]
    pub fn new(_secrets: &[Secret]) -> Self {
        Self {}
    }
    /// The text without secrets.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        text.to_owned()
    }
    /// Every string (keys too) of a JSON value without secrets.
    pub fn redact_value(&self, _value: &mut Value) {}
    /// A serialisable value with every string in it redacted.
    #[must_use]
    pub fn redact_serialized<T: Serialize + DeserializeOwned>(&self, value: T) -> T {
        value
    }
}
