//! Tokens and money.
//!
//! The sum that budgets compare is **everything that is billed**: uncached input, cache writes, cache reads and output
//! (thinking included). Money is counted in whole nano-dollars, so that sums are exact and two runs print the same figure.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Token counts of one or more model calls, with the field names of the Messages API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Input after the last cache breakpoint.
    pub input_tokens: u64,
    /// Input written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Input read from the cache.
    pub cache_read_input_tokens: u64,
    /// Output, thinking included.
    pub output_tokens: u64,
}

impl Usage {
    /// All that is billed, in tokens.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input().saturating_add(self.output_tokens)
    }

    /// All input, cached or not, in tokens.
    #[must_use]
    pub fn input(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_creation_input_tokens)
            .saturating_add(self.cache_read_input_tokens)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cache_creation_input_tokens = self
            .cache_creation_input_tokens
            .saturating_add(other.cache_creation_input_tokens);
        self.cache_read_input_tokens = self
            .cache_read_input_tokens
            .saturating_add(other.cache_read_input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// An amount of US dollars in nano-dollars; JSON and YAML show it as a number of dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From nano-dollars.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In nano-dollars.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// From dollars; `None` for what is negative, infinite, not a number or beyond nine billion.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        (dollars.is_finite() && (0.0..=9e9).contains(&dollars))
            .then(|| Self((dollars * 1e9).round() as u64))
    }

    /// In dollars.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "for display; sums are kept in nano-dollars"
    )]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The sum, held at the largest amount.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, held at zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::fmt::Display for Usd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "${:.4}", self.dollars())
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| {
            serde::de::Error::custom(format!("expected an amount of dollars, found `{dollars}`"))
        })
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "US dollars", "type": "number", "minimum": 0 })
    }
}

/// What a model's tokens cost, in nano-dollars a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Uncached input.
    pub input: u64,
    /// Cache writes.
    pub cache_write: u64,
    /// Cache reads.
    pub cache_read: u64,
    /// Output.
    pub output: u64,
}

/// What is known of a model: price, window, output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFacts {
    /// Price per token.
    pub price: Price,
    /// Context window in tokens.
    pub context_window: u64,
    /// Most output tokens a call may ask for.
    pub max_output_tokens: u64,
}

/// A row of the data file `usage/models.json`: dollars per million tokens.
#[derive(Deserialize)]
struct ModelRow {
    input: f64,
    output: f64,
    context_window: u64,
    max_output_tokens: u64,
}

static MODELS: LazyLock<BTreeMap<String, ModelFacts>> = LazyLock::new(|| {
    let rows: BTreeMap<String, ModelRow> =
        serde_json::from_str(include_str!("usage/models.json")).unwrap_or_default();
    rows.into_iter()
        .map(|(id, row)| (id, row.facts()))
        .collect()
});

impl ModelRow {
    /// A cache write costs 1.25 and a cache read 0.1 of an input token (five-minute cache).
    fn facts(&self) -> ModelFacts {
        let nanos = |dollars_per_million: f64| {
            Usd::from_dollars(dollars_per_million / 1e6)
                .unwrap_or_default()
                .nanos()
        };
        ModelFacts {
            price: Price {
                input: nanos(self.input),
                cache_write: nanos(self.input * 1.25),
                cache_read: nanos(self.input * 0.1),
                output: nanos(self.output),
            },
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
        }
    }
}

impl ModelFacts {
    /// Looks a model id up (without its provider); `None` for a model that the data file does not list.
    #[must_use]
    pub fn of(model_id: &str) -> Option<Self> {
        MODELS.get(model_id).copied()
    }
}

impl Price {
    /// What these tokens cost.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Usd {
        let part = |tokens: u64, price: u64| tokens.saturating_mul(price);
        Usd(part(usage.input_tokens, self.input)
            .saturating_add(part(usage.cache_creation_input_tokens, self.cache_write))
            .saturating_add(part(usage.cache_read_input_tokens, self.cache_read))
            .saturating_add(part(usage.output_tokens, self.output)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_kinds_of_tokens_are_counted_and_priced() {
        let usage = Usage {
            input_tokens: 1_000_000,
            cache_creation_input_tokens: 1_000_000,
            cache_read_input_tokens: 1_000_000,
            output_tokens: 1_000_000,
        };
        assert_eq!(usage.total(), 4_000_000);
        let price = ModelFacts::of("claude-sonnet-5").unwrap().price;
        assert_eq!(
            price.cost(&usage),
            Usd::from_dollars(2.0 + 2.5 + 0.2 + 10.0).unwrap()
        );
    }

    #[test]
    fn the_data_file_parses_and_every_model_has_a_price() {
        assert!(MODELS.len() >= 8);
        assert!(
            MODELS
                .values()
                .all(|facts| facts.price.output > facts.price.input && facts.price.cache_read > 0)
        );
    }

    #[test]
    fn amounts_that_are_no_money_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e12] {
            assert_eq!(Usd::from_dollars(bad), None);
        }
    }
}
