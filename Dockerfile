# The program alone: node, the libraries that it is linked with, the production dependencies. No shell, no package manager, no root.
# Any other base that holds node and npm on a glibc Linux will do: --build-arg NODE_IMAGE=…
ARG NODE_IMAGE=docker.io/library/node:26.10.0-trixie-slim@sha256:930557a230abacbc3f4fd9b8648abf8f4bee1e17cb72195dcdfb2f709bc85b33

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# No package runs a script: better-sqlite3 brings its binaries along.
RUN npm ci --ignore-scripts
COPY rolldown.config.ts ./
COPY src src
RUN node node_modules/rolldown/bin/cli.mjs -c

FROM ${NODE_IMAGE} AS production
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --omit=dev --omit=optional
COPY scripts/sbom.ts scripts/
RUN node scripts/sbom.ts > /sbom.cdx.json
# Binaries of other platforms, sources and types are dead weight.
RUN node_binary="linux-$(node -p process.arch).node" \
 && find node_modules/better-sqlite3/prebuilds -type f ! -name "$node_binary" -delete \
 && rm -rf node_modules/better-sqlite3/deps node_modules/better-sqlite3/src node_modules/.bin node_modules/.package-lock.json \
 && find node_modules -type f \( -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.map' \) -delete \
 && find node_modules -type d -empty -delete
# The file system of the image: node, what it is linked with, and what tells a scanner which packages these are.
RUN mkdir -p /image/usr/local/bin /image/etc/auditferry /image/var/lib/dpkg/status.d /image/tmp \
 && cp "$(readlink -f "$(command -v node)")" /image/usr/local/bin/node \
 && ldd /image/usr/local/bin/node | sed -n 's#.*[[:space:]]\(/[^ ]*\) (0x.*#\1#p' | sort -u > /libraries \
 && while read -r library; do mkdir -p "/image$(dirname "$library")" && cp -L "$library" "/image$library" || exit 1; done < /libraries \
 && while read -r library; do dpkg -S "$(readlink -f "$library")" "$library" 2>/dev/null || true; done < /libraries | sed 's/: .*//' | sort -u \
    | while read -r package; do dpkg -s "$package" > "/image/var/lib/dpkg/status.d/${package%%:*}"; done \
 && cp -L /etc/os-release /image/etc/os-release \
 && printf 'root:x:0:0:root:/:/nologin\nauditferry:x:65532:65532:auditferry:/var/lib/auditferry:/nologin\n' > /image/etc/passwd \
 && printf 'root:x:0:\nauditferry:x:65532:\n' > /image/etc/group \
 && printf 'hosts: files dns\n' > /image/etc/nsswitch.conf \
 && printf '#!/usr/local/bin/node\nimport("/app/dist/main.js")\n' > /image/usr/local/bin/auditferry \
 && chmod 0755 /image/usr/local/bin/auditferry && chmod 1777 /image/tmp \
 && mkdir -p /image/app && cp -R node_modules package.json /image/app/ \
 && mkdir -p /image/usr/share/doc/auditferry && cp /sbom.cdx.json /image/usr/share/doc/auditferry/
COPY --from=build /build/dist /image/app/dist
COPY LICENSE CHANGELOG.md /image/usr/share/doc/auditferry/

FROM scratch
COPY --from=production /image /
# Its own copy, since the folder's owner is what a new volume takes over.
COPY --from=production --chown=65532:65532 /image/etc/auditferry /var/lib/auditferry
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="auditferry" \
      org.opencontainers.image.description="Ships a workspace's audit log to a security team's SIEM, complete and byte for byte" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
# The C library else keeps the memory of a huge entry for the next one.
ENV NODE_ENV=production \
    MALLOC_MMAP_THRESHOLD_=8388608 \
    AUDITFERRY_LISTEN=0.0.0.0:9464
USER 65532:65532
WORKDIR /var/lib/auditferry
VOLUME /var/lib/auditferry
EXPOSE 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/node", "/app/dist/health.js"]
ENTRYPOINT ["/usr/local/bin/auditferry"]
CMD ["run"]
