//! `Columns`: a table of the core for Python, through the Arrow C stream interface.
//!
//! [`Builder`] gathers columns of equal length; texts become dictionaries, so that a million
//! procedure names cost a million small numbers. What goes wrong in here (columns of unequal
//! length) is a defect of the file that builds them, and tests see it.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringDictionaryBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchIterator, RecordBatchReader,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::internal;

/// (name, value) of these fields of a record, as 64-bit numbers.
macro_rules! named {
    ($of:expr; $($field:ident),+ $(,)?) => {
        [$((stringify!($field), u64::from($of.$field))),+]
    };
}
pub(crate) use named;

/// Rows of the core as an Arrow stream of one batch.
#[pyclass(module = "nfslab._core", frozen)]
pub struct Columns(RecordBatch);

#[pymethods]
impl Columns {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The stream; may be asked for again.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer that cannot cast give its own schema.
        drop(requested_schema);
        let batch: Result<RecordBatch, ArrowError> = Ok(self.0.clone());
        let reader = RecordBatchIterator::new(std::iter::once(batch), self.0.schema());
        stream(py, reader)
    }
}

/// What `__arrow_c_stream__` returns: the batches of `reader`.
pub fn stream(
    py: Python<'_>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'_, PyCapsule>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// Gathers columns.
#[derive(Default)]
pub struct Builder {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Builder {
    fn push(mut self, name: &str, array: ArrayRef, nullable: bool) -> Self {
        let kind = array.data_type().clone();
        self.fields.push(Field::new(name, kind, nullable));
        self.arrays.push(array);
        self
    }

    /// A column of 64-bit numbers.
    pub fn u64(self, name: &str, values: impl Iterator<Item = u64>) -> Self {
        self.push(name, Arc::new(UInt64Array::from_iter_values(values)), false)
    }

    /// A column of 64-bit numbers, some of them unknown.
    pub fn u64_or_null(self, name: &str, values: impl Iterator<Item = Option<u64>>) -> Self {
        self.push(name, Arc::new(UInt64Array::from_iter(values)), true)
    }

    /// A column of yes and no.
    pub fn flag(self, name: &str, values: impl Iterator<Item = bool>) -> Self {
        let array: BooleanArray = values.map(Some).collect();
        self.push(name, Arc::new(array), false)
    }

    /// A column of lists of 64-bit numbers.
    pub fn lists<'a>(self, name: &str, values: impl Iterator<Item = &'a [u64]>) -> Self {
        let item = Field::new("item", DataType::UInt64, false);
        let mut builder = ListBuilder::new(UInt64Builder::new()).with_field(item);
        for list in values {
            builder.values().append_slice(list);
            builder.append(true);
        }
        self.push(name, Arc::new(builder.finish()), false)
    }

    /// A column of 32-bit numbers.
    pub fn u32(self, name: &str, values: impl Iterator<Item = u32>) -> Self {
        self.push(name, Arc::new(UInt32Array::from_iter_values(values)), false)
    }

    /// A column of 32-bit numbers, some of them unknown.
    pub fn u32_or_null(self, name: &str, values: impl Iterator<Item = Option<u32>>) -> Self {
        self.push(name, Arc::new(UInt32Array::from_iter(values)), true)
    }

    /// A column of texts of which there are few.
    pub fn text(self, name: &str, values: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let mut builder = StringDictionaryBuilder::<Int32Type>::new();
        values.for_each(|value| builder.append_value(value));
        self.push(name, Arc::new(builder.finish()), false)
    }

    /// A column of texts of which there are few, some of them unknown.
    pub fn text_or_null(
        self,
        name: &str,
        values: impl Iterator<Item = Option<impl AsRef<str>>>,
    ) -> Self {
        let mut builder = StringDictionaryBuilder::<Int32Type>::new();
        values.for_each(|value| builder.append_option(value));
        self.push(name, Arc::new(builder.finish()), true)
    }

    /// All of them.
    pub fn finish(self, py: Python<'_>) -> PyResult<Columns> {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema, self.arrays);
        batch
            .map(Columns)
            .map_err(|error| internal(py, "columns do not fit together", error))
    }
}
