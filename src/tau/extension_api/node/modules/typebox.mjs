// The schema builder of typebox, as plain JSON schema objects.

const OPTIONAL = Symbol("optional"); // not visible in JSON
const KIND = Symbol.for("TypeBox.Kind");

function schema(kind, fields, options) {
  const made = { ...fields, ...options };
  Object.defineProperty(made, KIND, { value: kind, enumerable: false });
  return made;
}

function copy(given, changes = {}) {
  const made = { ...given, ...changes };
  for (const key of [OPTIONAL, KIND]) {
    if (given[key] !== undefined) Object.defineProperty(made, key, { value: given[key], enumerable: false });
  }
  return made;
}

function isOptional(given) {
  return given?.[OPTIONAL] === true;
}

function object(properties, options) {
  const required = Object.keys(properties).filter((name) => !isOptional(properties[name]));
  const fields = { type: "object", ...(required.length ? { required } : {}), properties };
  return schema("Object", fields, options);
}

function mapProperties(given, change) {
  return Object.fromEntries(Object.entries(given.properties ?? {}).map(([name, value]) => [name, change(value, name)]));
}

function optionsOf({ type, properties, required, ...options }) {
  return options;
}

function names(keys) {
  if (Array.isArray(keys)) return keys;
  if (keys?.anyOf) return keys.anyOf.map((one) => one.const);
  return [keys?.const];
}

export const Type = new Proxy(
  {
    Object: object,
    String: (options) => schema("String", { type: "string" }, options),
    Number: (options) => schema("Number", { type: "number" }, options),
    Integer: (options) => schema("Integer", { type: "integer" }, options),
    BigInt: (options) => schema("BigInt", { type: "bigint" }, options),
    Boolean: (options) => schema("Boolean", { type: "boolean" }, options),
    Null: (options) => schema("Null", { type: "null" }, options),
    Literal: (value, options) => schema("Literal", { type: value === null ? "null" : typeof value, const: value }, options),
    Array: (items, options) => schema("Array", { type: "array", items }, options),
    Tuple: (items, options) =>
      schema("Tuple", { type: "array", items, additionalItems: false, minItems: items.length, maxItems: items.length }, options),
    Union: (anyOf, options) => schema("Union", { anyOf }, options),
    Intersect: (allOf, options) => schema("Intersect", { allOf }, options),
    Record: (key, value, options) =>
      schema("Record", { type: "object", patternProperties: { [key?.pattern ?? "^.*$"]: value } }, options),
    Optional(given) {
      const made = copy(given);
      Object.defineProperty(made, OPTIONAL, { value: true, enumerable: false });
      return made;
    },
    Readonly: (given) => copy(given),
    Enum(values, options) {
      const list = Array.isArray(values)
        ? values
        : Object.entries(values)
            .filter(([key]) => Number.isNaN(Number(key)))
            .map(([, value]) => value);
      return schema("Enum", { enum: list }, options);
    },
    Any: (options) => schema("Any", {}, options),
    Unknown: (options) => schema("Unknown", {}, options),
    Never: (options) => schema("Never", { not: {} }, options),
    Undefined: (options) => schema("Undefined", { type: "undefined" }, options),
    Void: (options) => schema("Void", { type: "void" }, options),
    Unsafe: (given = {}) => schema("Unsafe", given),
    Ref: (target, options) => schema("Ref", { $ref: typeof target === "string" ? target : target.$id }, options),
    Partial: (given, options) =>
      object(mapProperties(given, (value) => Type.Optional(value)), { ...optionsOf(given), ...options }),
    Required(given, options) {
      const required = mapProperties(given, (value) => {
        const { ...made } = value;
        return made;
      });
      return object(required, { ...optionsOf(given), ...options });
    },
    Pick(given, keys, options) {
      const kept = names(keys);
      const properties = Object.fromEntries(Object.entries(given.properties).filter(([name]) => kept.includes(name)));
      return object(properties, { ...optionsOf(given), ...options });
    },
    Omit(given, keys, options) {
      const left = names(keys);
      const properties = Object.fromEntries(Object.entries(given.properties).filter(([name]) => !left.includes(name)));
      return object(properties, { ...optionsOf(given), ...options });
    },
    Composite: (given, options) => object(Object.assign({}, ...given.map((one) => one.properties)), options),
    Extends: (left, right, yes, no) => yes ?? no,
    KeyOf: (given, options) => Type.Union(Object.keys(given.properties).map((name) => Type.Literal(name)), options),
    TemplateLiteral: (_, options) => schema("String", { type: "string" }, options),
    RegExp: (pattern, options) => schema("String", { type: "string", pattern: pattern.source ?? pattern }, options),
    Date: (options) => schema("Date", { type: "string", format: "date-time" }, options),
  },
  {
    get(types, name) {
      return name in types || typeof name === "symbol" ? types[name] : (...given) => schema(name, {}, given.at(-1));
    },
  },
);

export const Kind = KIND;
export const Optional = Type.Optional;
export const Static = undefined;
export default Type;
