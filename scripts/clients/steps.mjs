// Reports of the steps of a client in JavaScript: what steps.py is for Python.

export async function step(name, work) {
  let problem = "";
  try {
    await work();
  } catch (error) {
    problem = `${error.name}: ${error.message}`;
  }
  console.log(JSON.stringify({ step: name, problem }));
}

export function expect(found, wanted) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (left !== right) throw new Error(`${left} instead of ${right}`);
}
