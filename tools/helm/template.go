package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

const namespace = "default"

// The steps of "helm template NAME CHART --kube-version KUBERNETES -f -", in Helm's order: see runInstall in
// cmd/helm/install.go, RunWithContext and renderResources in pkg/action, and cmd/helm/template.go.
func template(name, folder, kubernetes string, in io.Reader, out io.Writer) error {
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return fmt.Errorf("invalid kube version %q: %w", kubernetes, err)
	}
	values, err := readValues(in)
	if err != nil {
		return err
	}
	loaded, err := load(folder)
	if err != nil {
		return err
	}
	if err := chartutil.ValidateReleaseName(name); err != nil {
		return fmt.Errorf("release name %q: %w", name, err)
	}
	if err := chartutil.ProcessDependenciesWithMerge(loaded, values); err != nil {
		return err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	release := chartutil.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	merged, err := chartutil.ToRenderValues(loaded, values, release, capabilities) // validates against the schema too
	if err != nil {
		return err
	}
	if wanted := loaded.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, version.String()) {
		return fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, version)
	}
	files, err := engine.Render(loaded, merged)
	if err != nil {
		return err
	}
	return write(files, out)
}

func readValues(in io.Reader) (chartutil.Values, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("cannot read the values: %w", err)
	}
	values, err := chartutil.ReadValues(data)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the values: %w", err)
	}
	return values, nil
}

func load(folder string) (*chart.Chart, error) {
	loaded, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	if kind := loaded.Metadata.Type; kind != "" && kind != "application" {
		return nil, fmt.Errorf("%s charts are not installable", kind)
	}
	if len(loaded.Metadata.Dependencies) > 0 {
		// Helm's check for missing ones is in pkg/action, which needs a cluster's client.
		return nil, errors.New("the chart has dependencies, and this program does not check that they are present")
	}
	return loaded, nil
}

// The manifests in the order in which Helm creates the objects, then the hooks. The notes are rendered, not printed.
func write(files map[string]string, out io.Writer) error {
	for path := range files {
		if strings.HasSuffix(path, "NOTES.txt") {
			delete(files, path)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	var objects bytes.Buffer
	for _, manifest := range manifests {
		fmt.Fprintf(&objects, "---\n# Source: %s\n%s\n", manifest.Name, manifest.Content)
	}
	fmt.Fprintln(out, strings.TrimSpace(objects.String()))
	for _, hook := range hooks {
		fmt.Fprintf(out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return nil
}
