// Checks values against schemas: `Value.Check`, `Compile` and what belongs to them.

import { matchesFormat } from "../formats.mjs";

const TYPES = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number" && Number.isFinite(value),
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
  array: Array.isArray,
  object: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
  undefined: (value) => value === undefined,
};

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

function* errorsOf(schema, value, path) {
  const fail = (message) => ({ path, instancePath: path, message, value, schema });
  if (schema === true || schema === undefined) return;
  if (schema.not && Object.keys(schema.not).length === 0) return yield fail("Unexpected value");
  if (schema.anyOf) {
    if (!schema.anyOf.some((one) => check(one, value))) yield fail("must match a schema in anyOf");
    return;
  }
  for (const one of schema.allOf ?? []) yield* errorsOf(one, value, path);
  if ("const" in schema && !same(schema.const, value)) yield fail("must be equal to constant");
  if (schema.enum && !schema.enum.some((one) => same(one, value))) yield fail("must be equal to one of the allowed values");
  const kinds = schema.type === undefined ? [] : [schema.type].flat();
  if (kinds.length && !kinds.some((kind) => TYPES[kind]?.(value) ?? true)) {
    return yield fail(`must be ${kinds.join(" or ")}`);
  }
  yield* limits(schema, value, fail);
  if (TYPES.object(value)) yield* objectErrors(schema, value, path, fail);
  if (Array.isArray(value)) yield* arrayErrors(schema, value, path);
}

function* limits(schema, value, fail) {
  if (typeof value === "number") {
    if (schema.minimum !== undefined && value < schema.minimum) yield fail(`must be >= ${schema.minimum}`);
    if (schema.maximum !== undefined && value > schema.maximum) yield fail(`must be <= ${schema.maximum}`);
    if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) yield fail(`must be > ${schema.exclusiveMinimum}`);
    if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum) yield fail(`must be < ${schema.exclusiveMaximum}`);
  }
  if (typeof value === "string") {
    if (value.length < (schema.minLength ?? 0)) yield fail(`must not have fewer than ${schema.minLength} characters`);
    if (value.length > (schema.maxLength ?? Infinity)) yield fail(`must not have more than ${schema.maxLength} characters`);
    if (schema.pattern && !new RegExp(schema.pattern).test(value)) yield fail(`must match pattern "${schema.pattern}"`);
    if (schema.format && !matchesFormat(schema.format, value)) yield fail(`must match format "${schema.format}"`);
  }
  if (Array.isArray(value)) {
    if (value.length < (schema.minItems ?? 0)) yield fail(`must not have fewer than ${schema.minItems} items`);
    if (value.length > (schema.maxItems ?? Infinity)) yield fail(`must not have more than ${schema.maxItems} items`);
  }
}

function* objectErrors(schema, value, path, fail) {
  for (const name of schema.required ?? []) {
    if (value[name] === undefined) yield fail(`must have required property '${name}'`);
  }
  for (const [name, inner] of Object.entries(value)) {
    const pattern = Object.entries(schema.patternProperties ?? {}).find(([one]) => new RegExp(one).test(name));
    if (schema.properties?.[name]) {
      if (inner !== undefined) yield* errorsOf(schema.properties[name], inner, `${path}/${name}`);
    } else if (pattern) yield* errorsOf(pattern[1], inner, `${path}/${name}`);
    else if (schema.additionalProperties === false) yield fail(`must not have additional property '${name}'`);
    else if (typeof schema.additionalProperties === "object") {
      yield* errorsOf(schema.additionalProperties, inner, `${path}/${name}`);
    }
  }
}

function* arrayErrors(schema, value, path) {
  for (const [at, inner] of value.entries()) {
    const items = Array.isArray(schema.items) ? schema.items[at] : schema.items;
    if (items) yield* errorsOf(items, inner, `${path}/${at}`);
  }
}

function check(schema, value) {
  return errorsOf(schema, value, "").next().done === true;
}

function withDefaults(schema, value) {
  if (value === undefined && schema?.default !== undefined) return structuredClone(schema.default);
  if (schema?.properties && TYPES.object(value)) {
    for (const [name, inner] of Object.entries(schema.properties)) {
      const filled = withDefaults(inner, value[name]);
      if (filled !== undefined) value[name] = filled;
    }
  }
  return value;
}

function cleaned(schema, value) {
  if (schema?.properties && TYPES.object(value)) {
    return Object.fromEntries(
      Object.entries(value)
        .filter(([name]) => name in schema.properties)
        .map(([name, inner]) => [name, cleaned(schema.properties[name], inner)]),
    );
  }
  if (schema?.items && !Array.isArray(schema.items) && Array.isArray(value)) return value.map((one) => cleaned(schema.items, one));
  return value;
}

function parsed(schema, value) {
  const filled = withDefaults(schema, structuredClone(value));
  const error = errorsOf(schema, filled, "").next().value;
  if (error) throw new Error(`${error.path || "/"}: ${error.message}`);
  return filled;
}

function created(schema) {
  if (schema.default !== undefined) return structuredClone(schema.default);
  if ("const" in schema) return schema.const;
  if (schema.anyOf) return created(schema.anyOf[0]);
  const empty = { string: "", number: 0, integer: 0, boolean: false, null: null, array: [] };
  if (schema.type !== "object") return empty[schema.type];
  return Object.fromEntries((schema.required ?? []).map((name) => [name, created(schema.properties[name])]));
}

// Earlier versions of typebox take the schemas that a schema refers to before the value.
const last = (given) => given.at(-1);

export const Value = {
  Check: (schema, ...given) => check(schema, last(given)),
  Errors: (schema, ...given) => [...errorsOf(schema, last(given), "")],
  Default: (schema, ...given) => withDefaults(schema, last(given)),
  Clean: (schema, ...given) => cleaned(schema, last(given)),
  Convert: (schema, ...given) => last(given),
  Decode: (schema, ...given) => parsed(schema, last(given)),
  Encode: (schema, ...given) => last(given),
  Parse: (schema, ...given) => parsed(schema, last(given)),
  Create: (schema) => created(schema),
  Clone: (value) => structuredClone(value),
  Equal: same,
};

export function Compile(schema) {
  return {
    Check: (value) => check(schema, value),
    Errors: (value) => [...errorsOf(schema, value, "")],
    Default: (value) => withDefaults(schema, value),
    Clean: (value) => cleaned(schema, value),
    Parse: (value) => parsed(schema, value),
    Decode: (value) => parsed(schema, value),
    Schema: () => schema,
  };
}

export const TypeCompiler = { Compile };
export const Check = Value.Check;
export const Errors = Value.Errors;
export const Default = Value.Default;
export const Clean = Value.Clean;
export const Convert = Value.Convert;
export const Decode = Value.Decode;
export const Encode = Value.Encode;
export const Parse = Value.Parse;
export const Create = Value.Create;
export const Clone = Value.Clone;
export const Equal = Value.Equal;
export default Value;
