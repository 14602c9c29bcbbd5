// Swagger UI over the API's description. A signed-in browser proves itself by its cookie: writes then need its token.

const target = document.querySelector("#docs");

function csrfToken() {
  const found = document.cookie.match(/(?:^|; )csrftoken=([^;]+)/);
  return found ? decodeURIComponent(found[1]) : null;
}

window.SwaggerUIBundle({
  url: target.dataset.description,
  domNode: target,
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    const token = csrfToken();
    if (token && request.method !== "GET") {
      request.headers["X-CSRFToken"] = token;
    }
    return request;
  },
});
