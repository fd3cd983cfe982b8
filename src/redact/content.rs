//! Turns a value into JSON and redacts its *content* on the way.
//!
//! Going over the finished JSON would not do: there, a string of the user and the name of a variant look alike. A
//! serializer is told which is which, so names of fields and variants pass and strings and map keys are redacted.

use std::cell::Cell;

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Error, Map, Value, value::Serializer as Plain};

use super::Redactor;

/// The redacted JSON of `value`, or nothing where there was nothing to redact.
pub(super) fn redact<T: Serialize>(redactor: &Redactor, value: &T) -> Result<Option<Value>, Error> {
    let touched = Cell::new(false);
    let clean = value.serialize(Content {
        redactor,
        touched: &touched,
    })?;
    Ok(touched.get().then_some(clean))
}

#[derive(Clone, Copy)]
struct Content<'a> {
    redactor: &'a Redactor,
    /// Set when a secret was found.
    touched: &'a Cell<bool>,
}

impl Content<'_> {
    fn string(self, text: &str) -> String {
        let clean = self.redactor.redact(text);
        if clean != text {
            self.touched.set(true);
        }
        clean
    }
}

/// A sequence, or the payload of a tuple variant.
struct Items<'a> {
    content: Content<'a>,
    variant: Option<&'static str>,
    list: Vec<Value>,
}

impl Items<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.list.push(item.serialize(self.content)?);
        Ok(())
    }

    fn close(self) -> Value {
        named(self.variant, Value::Array(self.list))
    }
}

/// A map, a struct, or the payload of a struct variant.
struct Fields<'a> {
    content: Content<'a>,
    variant: Option<&'static str>,
    map: Map<String, Value>,
    key: String,
}

impl Fields<'_> {
    fn put<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        let is_tag = name == "type" && self.map.is_empty();
        let value = if is_tag {
            value.serialize(Plain)?
        } else {
            value.serialize(self.content)?
        };
        self.map.insert(name.to_owned(), value);
        Ok(())
    }

    fn close(self) -> Value {
        named(self.variant, Value::Object(self.map))
    }
}

fn named(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(name) => Value::Object(Map::from_iter([(name.to_owned(), value)])),
        None => value,
    }
}

macro_rules! as_json {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, value: $type) -> Result<Value, Error> { Plain.$method(value) })*
    };
}

impl<'a> Serializer for Content<'a> {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Fields<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Fields<'a>;

    as_json! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64, serialize_char: char,
    }

    fn serialize_str(self, text: &str) -> Result<Value, Error> {
        Ok(Value::String(self.string(text)))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value, Error> {
        let clean = self.redactor.redact_bytes(bytes);
        if clean != bytes {
            self.touched.set(true);
        }
        Plain.serialize_bytes(&clean)
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value, Error> {
        Ok(Value::from(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(named(Some(variant), value.serialize(self)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(Items {
            content: self,
            variant: None,
            list: Vec::new(),
        })
    }

    fn serialize_tuple(self, len: usize) -> Result<Items<'a>, Error> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Items<'a>, Error> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, Error> {
        Ok(Items {
            content: self,
            variant: Some(variant),
            list: Vec::new(),
        })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields<'a>, Error> {
        Ok(Fields {
            content: self,
            variant: None,
            map: Map::new(),
            key: String::new(),
        })
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Fields<'a>, Error> {
        self.serialize_map(Some(len))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields<'a>, Error> {
        Ok(Fields {
            content: self,
            variant: Some(variant),
            map: Map::new(),
            key: String::new(),
        })
    }
}

macro_rules! items {
    ($($trait:ident::$method:ident),*) => {
        $(impl $trait for Items<'_> {
            type Ok = Value;
            type Error = Error;
            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
                self.push(item)
            }
            fn end(self) -> Result<Value, Error> {
                Ok(self.close())
            }
        })*
    };
}

items!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl $trait for Fields<'_> {
            type Ok = Value;
            type Error = Error;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.put(name, value)
            }
            fn end(self) -> Result<Value, Error> {
                Ok(self.close())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Fields<'_> {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = match key.serialize(Plain)? {
            Value::String(key) => key,
            Value::Number(number) => number.to_string(),
            Value::Bool(word) => word.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(ser::Error::custom("a map's key is not a string"));
            }
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let value = value.serialize(self.content)?;
        let key = self.content.redactor.redact_key(&self.key, &self.map);
        if key != self.key {
            self.content.touched.set(true);
        }
        self.map.insert(key, value);
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.close())
    }
}
