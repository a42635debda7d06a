//! Random objects of any built-in type, drawn from its schema.

use serde_json::{Map, Value, json};

use crate::schema::{Field, FieldType, Shape, Type};

/// Nesting of generated messages; types that contain themselves end here.
const MAX_LEVELS: usize = 7;

/// An object with each field given or left out by chance, the same for the same seed.
pub(crate) fn object(of: &'static Type, seed: u64) -> Value {
    Value::Object(Draw(seed).message(of, MAX_LEVELS))
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()].clone()
    }

    fn message(&mut self, of: &'static Type, levels: usize) -> Map<String, Value> {
        // Large types stay small enough: some eight fields on the average.
        let chance = (of.fields.len() as u64 / 8).max(2);
        of.fields
            .iter()
            .filter_map(|field| {
                let given = levels > 0 && self.below(chance) == 0;
                given.then(|| (field.name.to_owned(), self.field(field, levels - 1)))
            })
            .collect()
    }

    fn field(&mut self, field: &'static Field, levels: usize) -> Value {
        match field.shape {
            Shape::One => self.element(field, levels),
            Shape::List => (0..self.below(3)).map(|_| self.element(field, levels)).collect(),
            Shape::Map => {
                let entries = (0..self.below(3)).map(|at| (format!("k{at}"), self.element(field, levels)));
                Value::Object(entries.collect())
            }
        }
    }

    fn element(&mut self, field: &'static Field, levels: usize) -> Value {
        match field.of {
            FieldType::String => self.pick(&["", "a", "ü\u{1f600}\n\"", "default", "x-y.z"]).into(),
            FieldType::Bool => (self.below(2) == 0).into(),
            FieldType::Int32 => self.pick(&[0, 1, -1, 80, i32::MAX, i32::MIN]).into(),
            FieldType::Int64 => self.pick(&[0, 1, -1, 30, i64::MAX, i64::MIN]).into(),
            FieldType::Double => self.pick(&[json!(0), json!(1.5), json!(-3), json!(1e300)]),
            FieldType::Bytes => self.pick(&["", "AA==", "aGVsbG8=", "/+8="]).into(),
            FieldType::Quantity => self.pick(&["0", "1", "500m", "1Gi", "128Mi", "1500m", "100k"]).into(),
            FieldType::Time => {
                self.pick(&["2026-11-30T17:45:00Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]).into()
            }
            FieldType::MicroTime => self.pick(&["2026-11-30T17:45:00.123456Z", "1969-12-31T23:59:59.000001Z"]).into(),
            FieldType::Duration => "1s".into(),
            FieldType::IntOrString => self.pick(&[json!(8080), json!(0), json!("http"), json!("25%"), json!("")]),
            FieldType::Raw => self.pick(&[json!({"a": [1, null, "x"]}), json!("text"), json!(1.25), json!(false)]),
            FieldType::Object => self.pick(&[json!({}), json!({"apiVersion": "g/v1", "kind": "K", "n": null})]),
            FieldType::Strings => self.pick(&[json!([]), json!(["a"]), json!(["b", ""])]),
            FieldType::Message(of) => Value::Object(self.message(of.get(), levels)),
            FieldType::SchemaOrBool(of) => {
                if self.below(2) == 0 {
                    (self.below(2) == 0).into()
                } else {
                    Value::Object(self.message(of.get(), levels))
                }
            }
            FieldType::SchemaOrArray(of) => match self.below(2) {
                0 => Value::Object(self.message(of.get(), levels)),
                _ => (0..self.below(3)).map(|_| Value::Object(self.message(of.get(), levels))).collect(),
            },
            FieldType::SchemaOrStrings(of) => match self.below(2) {
                0 => Value::Object(self.message(of.get(), levels)),
                _ => self.pick(&[json!([]), json!(["a", "b"])]),
            },
        }
    }
}
