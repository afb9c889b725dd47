package admin

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed dashboard/*.html dashboard/*.js dashboard/*.css dashboard/*.svg dashboard/vendor
var dashboardFiles embed.FS

var assets, _ = fs.Sub(dashboardFiles, "dashboard") // the folder is embedded above

// pagePolicy is what the dashboard may load: its own files, and no markup made
// from text.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (s *Server) dashboard(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", pagePolicy)
	http.ServeFileFS(w, r, assets, "index.html")
}

func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if info, err := fs.Stat(assets, name); err != nil || info.IsDir() {
		writeProblem(w, http.StatusNotFound, "The dashboard has no such file.")
		return
	}
	http.ServeFileFS(w, r, assets, name)
}
