package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"astropile/internal/release"
	"astropile/internal/survey"
)

func newInspectCommand(a *app) *cobra.Command {
	var recipe string
	cmd := &cobra.Command{
		Use:   "inspect SRC...",
		Short: "Say what import would make of survey files, as a recipe",
		Long: `Look into survey files (HDF5, FITS, Parquet, CSV, ECSV, JSONL; a file or a folder) and print the recipe by which import would turn them into columns:
which one is the id, the position, what is a tensor, of which type, shape and unit, what is ragged. Warnings go to standard
error. Change the recipe where you want it otherwise, and give it to import with --recipe.`,
		Example: `  astropile inspect legacysurvey/
  astropile inspect legacysurvey/ > recipe.yaml && $EDITOR recipe.yaml
  astropile import legacysurvey/ --into releases/legacysurvey --recipe recipe.yaml`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, src []string) error {
			hints, err := loadRecipe(recipe)
			if err != nil {
				return err
			}
			report, end := a.progress()
			r, warnings, err := survey.Inspect(cmd.Context(), src, survey.InspectOptions{Recipe: hints, Progress: func(done, total int) { report("inspect files", int64(done), int64(total)) }})
			end()
			a.warn(warnings)
			err = release.Graded(err)
			if r == nil {
				return err
			}
			text, e := r.Marshal()
			if e != nil {
				return e
			}
			if a.json {
				if e := a.printReport(cmd.Context(), map[string]any{"recipe": string(text), "columns": r.Columns(), "notes": notes(r), "warnings": warningTexts(warnings)}, err); e != nil {
					return e
				}
			} else if _, e := a.out.Write(text); e != nil {
				return e
			}
			return err
		},
	}
	cmd.Flags().StringVar(&recipe, "recipe", "", "a `file` with hints, or a whole recipe to check against the files")
	return cmd
}

// loadRecipe reads a recipe, or gives none for no file.
func loadRecipe(file string) (*survey.Recipe, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := survey.LoadRecipe(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, release.Graded(err))
	}
	return r, nil
}

// notes says of every column why it is what it is.
func notes(r *survey.Recipe) map[string]string {
	out := map[string]string{}
	for i := range r.Map {
		out[r.Map[i].Name] = r.Map[i].Note
	}
	return out
}

func warningTexts(ws []survey.Warning) []string {
	out := make([]string, len(ws))
	for i, w := range ws {
		out[i] = w.String()
	}
	return out
}

func (a *app) warn(ws []survey.Warning) {
	for _, w := range ws {
		fmt.Fprintf(a.err, "warning: %s\n", w)
	}
}
