"""OpenAI models on Azure: the same APIs, at a URL from the environment and under deployment names of the user."""

from __future__ import annotations

from urllib.parse import urlsplit

from tau.errors import ModelError
from tau.llm.types import CallOptions, base_url
from tau.records.base import Value
from tau.records.models import Model

VERSION = "v1"
NO_BASE_URL = (
    "No base URL for Azure OpenAI. Set AZURE_OPENAI_BASE_URL or AZURE_OPENAI_RESOURCE_NAME, "
    "or baseUrl of the provider in models.json."
)
HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com")


class Endpoint(Value):
    base: str
    version: str
    deployment: str
    headers: dict[str, str]

    def url(self, path: str) -> str:
        return f"{self.base}/{path}?api-version={self.version}"


def is_azure(model: Model) -> bool:
    return model.api == "azure-openai-responses" or model.provider in ("azure", "azure-openai-responses")


def endpoint(model: Model, options: CallOptions) -> Endpoint:
    environment = options.environment
    return Endpoint(
        _base(model, options),
        environment.get("AZURE_OPENAI_API_VERSION") or VERSION,
        _deployments(environment.get("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "")).get(model.id, model.id),
        {"api-key": options.secret} if options.secret else {},
    )


def _base(model: Model, options: CallOptions) -> str:
    base = options.environment.get("AZURE_OPENAI_BASE_URL", "").strip()
    if not base and (name := options.environment.get("AZURE_OPENAI_RESOURCE_NAME", "").strip()):
        base = f"https://{name}.openai.azure.com/openai/v1"
    base = (base or base_url(model, options)).rstrip("/")
    if not base:
        raise ModelError(NO_BASE_URL, transient=False)
    parts = urlsplit(base)
    # The portal shows the URL without the path, and users copy it from there.
    if (parts.hostname or "").endswith(HOSTS) and parts.path in ("", "/openai"):
        base = f"{parts.scheme}://{parts.netloc}/openai/v1"
    return base


def _deployments(text: str) -> dict[str, str]:
    """model=deployment,model=deployment"""
    pairs = (entry.partition("=") for entry in text.split(","))
    return {model.strip(): name.strip() for model, _, name in pairs if model.strip() and name.strip()}
