// Shared by both extensions of the package.

export interface Rule {
  name: string;
  pattern: RegExp;
}

export enum Channel {
  Broken = "house-rules:broken",
}

export const RULES: Rule[] = [
  { name: "no console.log", pattern: /\bconsole\.log\(/ },
  { name: "no TODO without a name", pattern: /\bTODO(?!\()/ },
];
