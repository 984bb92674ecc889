// The keyword `format` of schemas, as tau checks it for arguments of tools. Formats that are not listed are not checked.

import { isIPv4, isIPv6 } from "node:net";

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const DURATION_TIME = "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)";
const pattern = (text) => {
  const expression = new RegExp(`^(?:${text})$`, "i");
  return (value) => expression.test(value);
};
const isHostname = pattern(`(?=.{1,253}$)${LABEL}(?:\\.${LABEL})*`);
const isTime = pattern("(?:[01]\\d|2[0-3]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)");

function isDate(value) {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(value)?.map(Number) ?? [];
  if (!month || month > 12 || !day) return false;
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];
}

function isEmail(value) {
  const at = value.lastIndexOf("@");
  const mailbox = value.slice(0, Math.max(at, 0));
  return /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/i.test(mailbox) && isHostname(value.slice(at + 1));
}

function isRegex(value) {
  try {
    return Boolean(new RegExp(value, "u"));
  } catch {
    return false;
  }
}

const FORMATS = {
  date: isDate,
  "date-time": (value) => isDate(value.slice(0, 10)) && /^t$/i.test(value[10] ?? "") && isTime(value.slice(11)),
  time: isTime,
  duration: pattern(`P(?:(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:${DURATION_TIME})?|${DURATION_TIME}|\\d+W)`),
  email: isEmail,
  hostname: isHostname,
  ipv4: isIPv4,
  ipv6: (value) => isIPv6(value) && !value.includes("%"),
  "json-pointer": pattern("(?:/(?:[^~/]|~[01])*)*"),
  regex: isRegex,
  uri: pattern("[a-z][a-z0-9+.-]*:(?:[a-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9a-f]{2})*"),
  url: (value) => URL.canParse(value),
  uuid: pattern("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
};

export function matchesFormat(name, value) {
  return FORMATS[name]?.(value) ?? true;
}
