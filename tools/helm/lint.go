package main

import (
	"fmt"
	"io"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// "helm lint CHART --strict -f -": a warning is an error.
func lintChart(folder string, in io.Reader, out io.Writer) error {
	values, err := readValues(in)
	if err != nil {
		return err
	}
	failed := 0
	for _, message := range lint.AllWithKubeVersion(folder, values, namespace, nil).Messages {
		fmt.Fprintln(out, message)
		if message.Severity >= support.WarningSev {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s: lint found %d problems", folder, failed)
	}
	return nil
}
